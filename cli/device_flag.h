// --device: where a verb's model computes.
#pragma once

#include <c10/core/Device.h>

#include <string>

namespace CLI {
class App;
}

namespace bridle {

void add_device(CLI::App& verb, std::string& device);

// cpu or cuda. Throws UsageError for another word, InputError for cuda where LibTorch has none.
at::Device device_named(const std::string& device, const char* operation);

}  // namespace bridle
