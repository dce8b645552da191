// Checkpoints: state/step_00000200 holds all that a run needs to go on as if it had never stopped, and SHA256SUMS, the digests of
// its files as sha256sum(1) writes them. Each is made beside its place and moved there in one step; the newest two are kept.
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
  std::string recipe = {};       // the text of the run's config.toml
  SafetensorsFile tensors = {};  // "model/…", "optimizer/…", "constraint/…"
};

// Keeps it and the one before: that after step `before`, which the run wrote last or went on from. All others are removed: one that
// is newer than `before` did not verify.
void write_checkpoint(const std::filesystem::path& run, const Checkpoint& checkpoint,
                      std::optional<int64_t> before);

// The newest whose files have the digests that it states; what is wrong with newer ones is told. None where there is no
// checkpoint at all. Throws InputError where there are some and none verifies. Nothing is removed.
std::optional<Checkpoint> read_newest_checkpoint(const std::filesystem::path& run,
                                                 std::string* trouble = nullptr);

}  // namespace bridle
