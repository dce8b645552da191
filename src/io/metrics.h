// metrics.jsonl: one JSON object a line, in the order of the steps.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace bridle {

class MetricsFile {
 public:
  // Opens, cut to its first `bytes`: what a resumed run will write again goes.
  MetricsFile(std::filesystem::path path, int64_t bytes);
  ~MetricsFile();
  MetricsFile(const MetricsFile&) = delete;
  MetricsFile& operator=(const MetricsFile&) = delete;

  void append(const std::string& line);  // in one write, so that readers see whole lines
  int64_t size() const { return size_; }
  void sync();

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
  int64_t size_;
};

}  // namespace bridle
