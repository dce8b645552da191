// Checkpoints: state/step_00000200 holds all that a run needs to go on as if it had never stopped. Each is made beside its
// place and moved there in one step; the newest two are kept.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "bridle/safetensors.h"

namespace bridle {

struct Checkpoint {
  int64_t step = 0;  // done
  int64_t loader_position = 0;
  int64_t metrics_bytes = 0;
  int64_t repairs = 0;
  double seconds = 0.0;          // trained so far
  SafetensorsFile tensors = {};  // "model/…", "optimizer/…", "constraint/…"
};

void write_checkpoint(const std::filesystem::path& run, const Checkpoint& checkpoint);

// The newest that can be read whole; what is wrong with newer ones is told. None where there is no checkpoint at all.
// Throws InputError where there are some and none can be read.
std::optional<Checkpoint> read_newest_checkpoint(const std::filesystem::path& run,
                                                 std::string* trouble = nullptr);

}  // namespace bridle
