// metrics.jsonl as series, read line by line in bounded memory. Any key with a number becomes a series, any key with an object of
// numbers one for each of its names: what later versions write is shown too.
#pragma once

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "report/thinned_series.h"

namespace bridle {

struct RunMetrics {
  using ByName = std::map<std::string, ThinnedSeries>;

  ByName series;                               // by key
  std::map<std::string, ByName> of_weights;    // norms, caps: by key and weight
  std::map<std::string, nlohmann::json> last;  // the last word on every number
  int64_t lines = 0;                           // that were understood
  int64_t damaged = 0;                         // that were not
};

// Follows a file that grows: each call reads what is new. Where the file is not the one that was read (a resumed run cuts it), it
// begins again.
class MetricsReader {
 public:
  const RunMetrics& read(const std::filesystem::path& path);  // throws InputError

 private:
  RunMetrics metrics_;
  size_t bytes_ = 0;       // read, whole lines
  std::string last_line_;  // before them
};

// A file that is missing has no lines. Throws InputError where it cannot be read.
RunMetrics read_metrics(const std::filesystem::path& path);

// {"step": […], "value": […]}, and "low", "high", "lines_per_point" where a point stands for several lines. A bound keeps every
// digit, and of several the largest: it is never too small. Others have seven digits.
nlohmann::ordered_json json_of(const ThinnedSeries& series, bool bound);

bool is_bound(const std::string& key);  // of metrics.jsonl: lipschitz, bound_of_caps, activation …

}  // namespace bridle
