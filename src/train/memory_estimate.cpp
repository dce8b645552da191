#include "train/memory_estimate.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "bridle/error.h"
#include "nn/fused_model.h"

namespace bridle {
namespace {

constexpr double kFloat = 4.0, kBfloat16 = 2.0, kToken = 8.0;  // bytes
constexpr double kBatchesAtOnce = 4.0;                         // of the loader, see LoaderOptions::prefetch

struct Sizes {
  explicit Sizes(const RunOptions& options)
      : d(static_cast<double>(options.model.hidden_size)),
        inner(static_cast<double>(options.model.intermediate_size)),
        layers(static_cast<double>(options.model.num_hidden_layers)),
        heads(static_cast<double>(options.model.num_attention_heads)),
        vocabulary(static_cast<double>(options.model.vocab_size)),
        length(static_cast<double>(options.data.sequence_length)),
        batch(static_cast<double>(options.data.batch_size)) {}
  double tokens() const { return batch * length; }
  double matrices() const { return layers * (4.0 * d * d + 2.0 * d * inner); }

  double d, inner, layers, heads, vocabulary, length, batch;
};

std::vector<double> layer_sizes(const RunOptions& options) {
  return {options.model.layer_sizes.begin(), options.model.layer_sizes.end()};
}

double parameters(const RunOptions& options) {
  if (options.model.kind != "mlp") {
    const Sizes sizes(options);
    const ModelOptions& model = options.model;
    const auto positions = static_cast<double>(model.max_position_embeddings);
    const double learned = model.positions == "learned" ? positions * sizes.d : 0.0;
    const double offsets =
        model.position_bias_offsets > 0 ? static_cast<double>(model.position_bias_offsets) : positions;
    const double biases = model.position_bias ? sizes.layers * sizes.heads * offsets : 0.0;
    return sizes.matrices() + (model.tie_embeddings ? 1.0 : 2.0) * sizes.vocabulary * sizes.d + learned +
           biases;
  }
  double count = 0.0;
  const std::vector<double> layers = layer_sizes(options);
  for (size_t i = 1; i < layers.size(); ++i) count += layers[i - 1] * layers[i];
  return count;
}

bool is_fused(const RunOptions& options) {
  if (options.training.precision != "bfloat16") return false;
  if (options.model.kind == "mlp") return true;
  return options.model.dropout == 0.0 && options.training.margin == 0.0 &&
         FusedModel::supports(options.model);
}

// Groups of sequences go through all layers, one a thread, or one for all threads where weights are large (nn/fused_model.cpp).
void add_fused_transformer(const Sizes& s, int threads, MemoryEstimate& estimate) {
  constexpr double slot_limit = 64 << 20, own_tokens = 512, shared_tokens = 4096, slots = 4;
  const double sums = kFloat * (s.matrices() + 2.0 * s.vocabulary * s.d);
  const bool shared = sums > slot_limit;
  estimate.packed = 2.0 * kBfloat16 * (s.matrices() + s.vocabulary * s.d) + (shared ? 1.0 : slots) * sums;
  const double group = shared ? std::max(shared_tokens, s.length) : threads * std::max(own_tokens, s.length);
  const double in_layers = s.layers * (6.0 * s.d + 2.0 * s.inner) + 8.0 * s.d + s.inner;
  constexpr double most_logits = 1 << 26;
  const double tokens = std::min(s.tokens(), group);
  estimate.activations = tokens * (kBfloat16 * in_layers + kFloat * s.d) +
                         (kFloat + kBfloat16) * std::min(tokens * s.vocabulary, most_logits);
}

// What LibTorch's autograd keeps of a block: inputs of its products, q, k, v and their turned copies, softmax, both sides of the
// activation; then what the last block's backward pass needs for a moment.
void add_plain_transformer(const RunOptions& options, const Sizes& s, MemoryEstimate& estimate) {
  const double bytes = options.training.precision == "bfloat16" ? kBfloat16 : kFloat;
  const double attention = s.heads * s.length;
  const double block = 10.0 * s.d + 3.0 * s.inner + (options.model.dropout > 0.0 ? 3.0 : 1.0) * attention;
  const double moment = 2.0 * s.inner + 2.0 * attention;
  estimate.activations = s.tokens() * (bytes * (s.layers * block + moment) + 3.0 * kFloat * s.vocabulary);
}

void add_mlp(const RunOptions& options, bool fused, MemoryEstimate& estimate) {
  const std::vector<double> layers = layer_sizes(options);
  const auto batch = static_cast<double>(options.data.batch_size);
  estimate.batches = kBatchesAtOnce * batch * kFloat * layers.front();
  double numbers = 0.0;
  for (size_t i = 1; i < layers.size(); ++i) {
    const double inputs = fused ? 2.0 * layers[i - 1] : i > 1 ? layers[i - 1] : 0.0;
    numbers += inputs + layers[i];
  }
  estimate.activations = batch * ((fused ? kBfloat16 : kFloat) * numbers + 2.0 * kFloat * layers.back());
  if (fused) estimate.packed = (2.0 * kBfloat16 + kFloat) * parameters(options);
}

std::string gib(double bytes) { return fmt::format("{:.3g}", bytes / (1024.0 * 1024.0 * 1024.0)); }

}  // namespace

MemoryEstimate memory_estimate(const RunOptions& options, int threads) {
  const double weights = kFloat * parameters(options);
  MemoryEstimate estimate{.weights = weights,
                          .gradients = (options.training.accumulate > 1 ? 2.0 : 1.0) * weights,
                          .optimizer = (options.optimizer.method == "adamw" ? 2.0 : 1.0) * weights};
  const bool fused = is_fused(options);
  if (options.model.kind == "mlp") {
    add_mlp(options, fused, estimate);
    return estimate;
  }
  const Sizes sizes(options);
  estimate.batches = kBatchesAtOnce * 2.0 * kToken * sizes.tokens();
  if (fused)
    add_fused_transformer(sizes, threads, estimate);
  else
    add_plain_transformer(options, sizes, estimate);
  return estimate;
}

void check_memory(const RunOptions& options, int threads, int64_t available) {
  const MemoryEstimate need = memory_estimate(options, threads);
  if (need.total() <= static_cast<double>(available)) return;
  const double of_batch = need.activations + need.batches;
  const bool mlp = options.model.kind == "mlp";
  const char* lower = 2.0 * of_batch > need.total()
                          ? mlp ? "data.batch_size" : "data.batch_size or data.sequence_length"
                      : mlp ? "model.hidden_sizes"
                            : "model.hidden_size or model.num_hidden_layers";
  throw InputError(
      "train",
      fmt::format("this run needs about {} GiB (weights {}, gradients {}, optimizer {}, packed weights {}, "
                  "activations {}, batches {}), and {} GiB are available; lower {}",
                  gib(need.total()), gib(need.weights), gib(need.gradients), gib(need.optimizer),
                  gib(need.packed), gib(need.activations), gib(need.batches),
                  gib(static_cast<double>(available)), lower));
}

}  // namespace bridle
