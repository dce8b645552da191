// metrics.jsonl: one JSON object per line, in the order of the steps; a number that is not finite is null.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "bridle/metrics.h"

namespace bridle {

class JsonLines : public MetricSink {
 public:
  // Opens, cut to its first `bytes`: what a resumed run will write again goes.
  JsonLines(std::filesystem::path path, int64_t bytes);
  ~JsonLines() override;
  JsonLines(const JsonLines&) = delete;
  JsonLines& operator=(const JsonLines&) = delete;

  void write(const MetricRecord& record) override;  // in one write, so that readers see whole lines
  void sync() override;
  int64_t size() const { return size_; }

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
  int64_t size_;
};

}  // namespace bridle
