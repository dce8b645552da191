#include "train/memory_estimate.h"

#include <fmt/format.h>

#include "bridle/error.h"
#include "dist/slices.h"
#include "train/train_state.h"

namespace bridle {
namespace {

constexpr double kFloat = 4.0, kToken = 8.0;  // bytes
constexpr double kBatchesAtOnce = 4.0;        // of the loader, see LoaderOptions::prefetch

double batch_bytes(const ModelShape& shape, const BatchShape& batch) {
  const double each = shape.input == InputKind::tokens ? 2.0 * kToken * static_cast<double>(batch.length)
                                                       : kFloat * static_cast<double>(shape.size);
  return kBatchesAtOnce * static_cast<double>(batch.size) * each;
}

std::string gib(double bytes) { return fmt::format("{:.3g}", bytes / (1024.0 * 1024.0 * 1024.0)); }

}  // namespace

MemoryEstimate memory_estimate(const RunOptions& options, int threads, int64_t ranks) {
  const auto model = outline(options.model.options());
  BatchShape batch = batch_shape(options, model->shape().input);
  batch.size /= options.training.slices;  // of one pass
  const int64_t all = options.training.accumulate * options.training.slices;
  const SliceRange own = slices_of(all, ranks - 1, ranks);  // the last rank has no less than another
  const auto nodes = static_cast<double>(nodes_of(all, own).size());
  const auto size = static_cast<double>(ranks), others = size - 1.0;
  const PassMemory pass = model->memory(batch, training_pass(options), threads);
  double weights = 0.0;
  for (const Param& param : model->params()) weights += kFloat * static_cast<double>(param.tensor.numel());
  return {.weights = weights,
          .gradients = static_cast<double>(sums_at_once(own.count)) * weights,
          .optimizer = (options.optimizer.method == OptimizerMethod::adamw ? 2.0 : 1.0) * weights / size,
          .packed = pass.packed,
          .activations = pass.activations,
          .batches = batch_bytes(model->shape(), batch),
          .exchange = ranks == 1 ? 0.0 : (2.0 * nodes * others + 1.0) / size * weights};
}

void check_memory(const RunOptions& options, int threads, int64_t available) {
  const MemoryEstimate need = memory_estimate(options, threads);
  if (need.total() <= static_cast<double>(available)) return;
  const double of_batch = need.activations + need.batches;
  const bool tokens = options.model.input() == InputKind::tokens;
  const char* lower = 2.0 * of_batch > need.total()
                          ? tokens ? "data.batch_size or data.sequence_length" : "data.batch_size"
                      : tokens ? "model.hidden_size or model.num_hidden_layers"
                               : "model.hidden_sizes";
  throw InputError(
      "train",
      fmt::format("this run needs about {} GiB (weights {}, gradients {}, optimizer {}, packed weights {}, "
                  "activations {}, batches {}), and {} GiB are available; lower {}",
                  gib(need.total()), gib(need.weights), gib(need.gradients), gib(need.optimizer),
                  gib(need.packed), gib(need.activations), gib(need.batches),
                  gib(static_cast<double>(available)), lower));
}

}  // namespace bridle
