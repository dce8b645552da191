#include "device_flag.h"

#include <ATen/Context.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "bridle/error.h"

namespace bridle {

void add_device(CLI::App& verb, std::string& device) {
  verb.add_option("--device", device, "Where the model computes")
      ->type_name("cpu|cuda")
      ->capture_default_str();
}

at::Device device_named(const std::string& device, const char* operation) {
  if (device == "cpu") return at::kCPU;
  if (device != "cuda")
    throw UsageError(operation, fmt::format("--device must be cpu or cuda, got {}", device));
  if (!at::Context::hasCUDART())
    throw InputError(operation,
                     "--device cuda needs a CUDA build of LibTorch; this one has none: use --device cpu");
  if (!at::hasCUDA())
    throw InputError(operation, "--device cuda needs a GPU; LibTorch sees none: use --device cpu");
  return at::kCUDA;
}

}  // namespace bridle
