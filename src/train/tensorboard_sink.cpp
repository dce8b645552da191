#include "train/tensorboard_sink.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/linalg_svdvals.h>

#include <cmath>

#include "bridle/run.h"

namespace bridle {
namespace {

constexpr int64_t kSampleTokens = 200;

// What is not finite is left out: it stands for none.
void add(std::vector<std::pair<std::string, double>>& scalars, const Metric& metric) {
  const auto number = [&](const std::string& tag, double value) {
    if (std::isfinite(value)) scalars.emplace_back(tag, value);
  };
  if (const auto* whole = std::get_if<int64_t>(&metric.value))
    number(metric.name, static_cast<double>(*whole));
  if (const auto* value = std::get_if<double>(&metric.value)) number(metric.name, *value);
  if (const auto* weights = std::get_if<Metric::PerWeight>(&metric.value))
    for (const auto& [name, value] : *weights) number(metric.name + "/" + name, value);
}

}  // namespace

TensorBoardSink::TensorBoardSink(std::filesystem::path run, const Model& model)
    : run_(std::move(run)), model_(model), file_(run_ / "tensorboard") {}

void TensorBoardSink::write(const MetricRecord& record) {
  std::vector<std::pair<std::string, double>> scalars;
  for (const Metric& metric : record.metrics) add(scalars, metric);
  if (!scalars.empty()) file_.scalars(record.step, scalars);
  if (record.find("validation_loss") == nullptr) return;
  write_singular_values(record.step);
  write_sample(record.step);
}

// In units of the norm that caps are about: the largest of a matrix is its norm.
void TensorBoardSink::write_singular_values(int64_t step) {
  const at::NoGradGuard no_gradients;
  for (const Param& param : model_.params()) {
    if (!is_matrix(param.role)) continue;
    const at::Tensor blocks = param.block_view().detach().to(at::kCPU, at::kDouble);
    const at::Tensor values = at::linalg_svdvals(blocks).div(param.unit()).flatten();
    std::vector<double> numbers;
    for (int64_t i = 0; i < values.numel(); ++i) numbers.push_back(values[i].item<double>());
    file_.histogram(step, "singular_values/" + param.name, numbers);
  }
}

void TensorBoardSink::write_sample(int64_t step) {
  if (!tokenizer_ && std::filesystem::exists(run_ / "vocab.json")) tokenizer_ = load_tokenizer(run_);
  if (!tokenizer_ || !model_.options()) return;
  const Token first = 0;  // of any vocabulary: its text can be encoded again
  const SampleOptions options{.prompt = tokenizer_->decode({&first, 1}), .tokens = kSampleTokens};
  file_.text(step, "sample", options.prompt + sample(model_, *tokenizer_, options));
}

}  // namespace bridle
