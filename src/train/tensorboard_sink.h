// Metrics for TensorBoard, in RUN/tensorboard: numbers as scalars, and at every evaluation the singular values of each matrix as a
// histogram and a sample of text where the model writes text. Each start of a run has a file of its own.
#pragma once

#include <filesystem>
#include <memory>

#include "bridle/metrics.h"
#include "bridle/nn.h"
#include "bridle/tokenizer.h"
#include "io/event_file.h"

namespace bridle {

class TensorBoardSink : public MetricSink {
 public:
  // The model is the run's own and outlives the sink. The tokenizer is that of the run's folder.
  TensorBoardSink(std::filesystem::path run, const Model& model);

  void write(const MetricRecord& record) override;
  void sync() override { file_.sync(); }
  void resume_after(int64_t step) override { file_.restart(step + 1); }

 private:
  void write_singular_values(int64_t step);
  void write_sample(int64_t step);
  std::filesystem::path run_;
  const Model& model_;
  EventFile file_;
  std::unique_ptr<Tokenizer> tokenizer_;
};

}  // namespace bridle
