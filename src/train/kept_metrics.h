// What a resumed run keeps of metrics.jsonl: the lines up to its checkpoint. The file is a record only, so that one which is
// damaged never stands in the way.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace bridle {

struct KeptMetrics {
  int64_t bytes = 0;    // from the file's beginning, whole lines
  std::string trouble;  // empty: nothing is lost
};

// For a checkpoint after `step`, at which the file had `bytes`.
KeptMetrics kept_metrics(const std::filesystem::path& path, int64_t bytes, int64_t step);

}  // namespace bridle
