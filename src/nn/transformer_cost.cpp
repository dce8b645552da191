// What a transformer costs: FLOP and memory, from its shapes.
#include <algorithm>

#include "nn/transformer.h"

namespace bridle {
namespace {

constexpr double kFloat = 4.0, kBfloat16 = 2.0;  // bytes

// Of a token with one that it sees: entries of logits and of weighted values.
double entries_per_pair(const TransformerOptions& o) {
  switch (o.mixing) {
    case MixingKind::attention:
      break;
    case MixingKind::quadrature:
      return static_cast<double>((o.num_attention_heads + o.content_heads) * o.hidden_size +
                                 o.content_heads * o.content_size);
  }
  return 2.0 * static_cast<double>(o.hidden_size);
}

// Per token and block: what is kept of reading others, and how many rows of weights over tokens are made on the way.
struct Reading {
  double entries, heads;
};

Reading reading_of(const TransformerOptions& o) {
  switch (o.mixing) {
    case MixingKind::attention:
      break;
    case MixingKind::quadrature:
      return {static_cast<double>((1 + o.num_attention_heads + o.content_heads) * o.hidden_size +
                                  2 * o.memory_channels + 2 * o.content_heads * o.content_size),
              static_cast<double>(o.content_heads)};
  }
  return {4.0 * static_cast<double>(o.hidden_size), static_cast<double>(o.num_attention_heads)};
}

struct Sizes {
  Sizes(const TransformerOptions& options, const std::vector<Param>& params, const BatchShape& batch)
      : d(static_cast<double>(options.hidden_size)),
        inner((options.gated ? 2.0 : 1.0) * static_cast<double>(options.intermediate_size)),
        layers(static_cast<double>(options.num_hidden_layers)),
        vocabulary(static_cast<double>(options.vocab_size)),
        length(static_cast<double>(batch.length)),
        tokens(static_cast<double>(batch.size) * static_cast<double>(batch.length)),
        reading(reading_of(options)) {
    for (const Param& param : params)
      if (is_matrix(param.role) && param.role != Role::head)
        matrices += static_cast<double>(param.tensor.numel());
  }

  double d, inner, layers, vocabulary, length, tokens;
  Reading reading;
  double matrices = 0.0;  // entries of those in blocks
};

// Groups of sequences go through all layers, one a thread, or one for all threads where weights are large
// (nn/fused_program.cpp).
PassMemory fused_memory(const Sizes& s, int threads, double value) {
  constexpr double slot_limit = 64 << 20, own_tokens = 512, shared_tokens = 4096, slots = 4;
  constexpr double most_logits = 1 << 26;
  const double sums = kFloat * (s.matrices + 2.0 * s.vocabulary * s.d);
  const bool shared = sums > slot_limit;
  const double group = shared ? std::max(shared_tokens, s.length) : threads * std::max(own_tokens, s.length);
  const double in_layers =
      s.layers * (2.0 * s.d + s.reading.entries + 2.0 * s.inner) + 4.0 * s.d + s.reading.entries + s.inner;
  const double tokens = std::min(s.tokens, group);
  return {.packed = 2.0 * value * (s.matrices + s.vocabulary * s.d) + (shared ? 1.0 : slots) * sums,
          .activations = tokens * (value * in_layers + kFloat * s.d) +
                         (kFloat + value) * std::min(tokens * s.vocabulary, most_logits)};
}

// What LibTorch's autograd keeps of a block: inputs of its products, q, k, v and their rotated copies, softmax, both sides of
// the activation; then what the last block's backward pass needs for a moment.
PassMemory plain_memory(const Sizes& s, bool dropout, double bytes) {
  const double attention = s.reading.heads * s.length;
  const double block = 6.0 * s.d + s.reading.entries + 3.0 * s.inner + (dropout ? 3.0 : 1.0) * attention;
  const double moment = 2.0 * s.inner + 2.0 * attention;
  return {.activations = s.tokens * (bytes * (s.layers * block + moment) + 3.0 * kFloat * s.vocabulary)};
}

}  // namespace

// The padding of a vocabulary makes no logits. A token sees (T + 1)/2 tokens on average, or fewer where windows are short; documents
// are not counted.
ModelFlop Transformer::flop(int64_t length) const {
  double entries = 0.0;  // of logits and weighted values
  for (int64_t layer = 0; layer < options_.num_hidden_layers; ++layer) {
    const VisibleTokens sees = visibility(options_, layer).tokens(nullptr, 0, 1.0);
    int64_t pairs = 0;
    for (int64_t token = 0; token < length; ++token) pairs += token - sees.begin(token) + 1;
    entries += entries_per_pair(options_) * static_cast<double>(pairs) / static_cast<double>(length);
  }
  for (const Param& param : params_)
    if (is_matrix(param.role) && param.role != Role::head)
      entries += static_cast<double>(param.tensor.numel());
  entries += static_cast<double>(options_.real_vocab_size * options_.hidden_size);
  return {.forward = 2.0 * entries, .backward = 4.0 * entries};
}

PassMemory Transformer::memory(const BatchShape& batch, const Pass& pass, int threads) const {
  const Sizes sizes(options_, params_, batch);
  const double value = pass.dtype == at::kBFloat16 ? kBfloat16 : kFloat;
  if (why_not_fused(pass).empty()) return fused_memory(sizes, threads, value);
  return plain_memory(sizes, options_.dropout > 0.0, value);
}

}  // namespace bridle
