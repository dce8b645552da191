// Means over all targets of a source. Ranks take batches in turns; what they give is added in the order of the batches.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/tensor.h>

#include <algorithm>

#include "bridle/ranks.h"
#include "bridle/train.h"
#include "dist/gather.h"

namespace bridle {
namespace {

constexpr int64_t kNumbers = 3;  // loss and accuracy of a batch, and its targets

// Those of all batches, in their order, from those of each rank's own.
std::vector<double> in_order(Ranks& ranks, const std::vector<double>& own, int64_t batches) {
  if (ranks.size() == 1) return own;
  std::vector<int64_t> counts;
  for (int64_t r = 0; r < ranks.size(); ++r)
    counts.push_back(kNumbers * std::max<int64_t>(0, (batches - r + ranks.size() - 1) / ranks.size()));
  const std::vector<double> gathered = gather_numbers(ranks, own, counts);
  std::vector<double> all(gathered.size());
  for (int64_t r = 0, place = 0; r < ranks.size(); ++r)
    for (int64_t batch = r; batch < batches; batch += ranks.size())
      for (int64_t k = 0; k < kNumbers; ++k, ++place)
        all[static_cast<size_t>(kNumbers * batch + k)] = gathered[static_cast<size_t>(place)];
  return all;
}

// The largest over all ranks: a rank without a batch has seen no layer.
void include_others(Ranks& ranks, ActivationStatistics& seen) {
  if (ranks.size() == 1) return;
  std::map<std::string, at::Tensor> own;
  for (const auto& [name, layer] : seen.layers)
    own[name] = at::tensor({layer.largest_rms, layer.largest_entry}, at::kDouble);
  for (const std::string& text : gather_texts(ranks, tensors_to_text(own)))
    for (const auto& [name, layer] : tensors_from_text(text))
      seen.include(name, {layer[0].item<double>(), layer[1].item<double>()});
}

}  // namespace

EvaluationResult evaluate(const Model& model, const std::shared_ptr<const Source>& source,
                          const EvaluateOptions& options, const OnProgress& progress) {
  const at::NoGradGuard no_gradients;
  const Evaluation batches(source, options.order);
  const auto single = alone();
  Ranks& ranks = options.ranks != nullptr ? *options.ranks : *single;
  EvaluationResult result;
  Pass pass{.dtype = options.dtype,
            .window_share = options.window_share,
            .statistics = options.statistics ? &result.statistics : nullptr};
  std::vector<double> own;
  for (int64_t i = ranks.rank(); i < batches.size(); i += ranks.size()) {
    const Batch batch = batches[i].to(model.device());
    const LossAndGradients of_batch = loss_only(model, batch, pass);
    own.insert(own.end(), {of_batch.loss, of_batch.accuracy, static_cast<double>(batch.targets.numel())});
    report(progress, {.what = "evaluating", .done = i + 1, .total = batches.size(), .unit = "batches"});
  }
  const std::vector<double> all = in_order(ranks, own, batches.size());
  if (options.statistics) include_others(ranks, result.statistics);
  for (size_t i = 0; i < all.size(); i += kNumbers) {
    result.loss += all[i] * all[i + 2];
    result.accuracy += all[i + 1] * all[i + 2];
    result.targets += static_cast<int64_t>(all[i + 2]);
  }
  result.loss /= static_cast<double>(result.targets);
  result.accuracy /= static_cast<double>(result.targets);
  return result;
}

}  // namespace bridle
