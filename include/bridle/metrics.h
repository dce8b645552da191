// Metrics: what a run measures on its way, as records. Every record goes to every sink: metrics.jsonl, which a run always has, and
// those that a program adds (TrainListener::sinks).
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace bridle {

struct Metric {
  using PerWeight = std::vector<std::pair<std::string, double>>;  // by name, in the order of the params
  std::string name;
  std::variant<int64_t, double, PerWeight> value;  // a number that is not finite stands for none
};

// What was measured after a step, in the order in which it is shown.
struct MetricRecord {
  int64_t step = 0;  // done
  std::vector<Metric> metrics = {};

  const Metric* find(const std::string& name) const {
    for (const Metric& metric : metrics)
      if (metric.name == name) return &metric;
    return nullptr;
  }
};

class MetricSink {
 public:
  virtual ~MetricSink() = default;

  // In the order of the steps; several records may be of one step. What it throws ends the run.
  virtual void write(const MetricRecord& record) = 0;

  // Before a checkpoint: what has been written must outlast a crash.
  virtual void sync() {}

  // The run goes on after a checkpoint of `step`: records of later steps are about to be written again.
  virtual void resume_after(int64_t /*step*/) {}
};

}  // namespace bridle
