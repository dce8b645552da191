// A model that Bridle does not know, as a user of the library would write one, and data for it. Public headers alone.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "bridle/train.h"

namespace bridle::test {

// x ↦ W₂ sin(W₁x), for vectors of 16 numbers and 4 classes.
class SineNetwork : public Model {
 public:
  explicit SineNetwork(uint64_t seed = 1);
  at::Tensor embed(const at::Tensor& inputs, Pass& pass) const override;
  at::Tensor forward_from(const at::Tensor& embedded, Pass& pass) const override;
  Bound bound(const UpperBound& domain, Walk& walk) const override;
  UpperBound input_bound(NormSource& norms) const override;
  ModelShape shape() const override;

  mutable int bounds = 0;  // how often `bound` was asked
};

// Numbers in [0, 1], each with the class of its largest quarter; counts what is read.
class QuarterSource : public Source {
 public:
  explicit QuarterSource(int64_t size, uint64_t seed);
  int64_t size() const override { return inputs_.size(0); }
  int64_t stride() const override { return 1; }
  Batch read(std::span<const int64_t> starts) const override;

  mutable std::atomic<int64_t> examples_read = 0;

 private:
  at::Tensor inputs_, labels_;
};

TrainerParts own_parts();  // a SineNetwork with 256 examples to learn from and 64 to validate with

// 20 steps of 16 examples.
RunOptions own_run();

// Remembers all that it is given.
class MemorySink : public MetricSink {
 public:
  void write(const MetricRecord& record) override { records.push_back(record); }
  void sync() override { ++syncs; }
  void resume_after(int64_t step) override { resumed.push_back(step); }

  std::vector<MetricRecord> records;
  std::vector<int64_t> resumed;
  int syncs = 0;
};

}  // namespace bridle::test
