#include "certify/search_starts.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "bridle/linalg.h"
#include "nn/heads.h"

namespace bridle {
namespace {

// The leading right singular vectors of row blocks, [blocks, columns], and their norms, [blocks].
struct Leading {
  at::Tensor norms;
  at::Tensor right;
};

at::Tensor values_of(const at::Tensor& weight) {
  return weight.detach().to(at::Device(at::kCPU), at::kDouble);
}

at::Tensor blocks_of(const Param& weight, int64_t heads) {
  return head_blocks(weight, values_of(weight.tensor), heads);
}

Leading leading(const at::Tensor& blocks) {
  PowerState state;
  const TopSingular top = top_singular_estimate(blocks, state, 32);
  return {top.sigma.to(at::kDouble), top.right.to(at::kDouble)};
}

at::Tensor leading_vector(const Param& weight) {
  return leading(values_of(weight.tensor).unsqueeze(0)).right[0];
}

struct Layer {
  Param query, key, value, up;
};

// None for a model that reads by position alone.
std::vector<Layer> layers_of(const Model& model) {
  std::vector<Layer> layers;
  for (const Param& param : model.params()) {
    if (param.role == Role::query) layers.emplace_back();
    if (layers.empty()) continue;
    if (param.role == Role::query) layers.back().query = param;
    if (param.role == Role::key) layers.back().key = param;
    if (param.role == Role::value) layers.back().value = param;
    if (param.role == Role::mlp_up) layers.back().up = param;
  }
  return layers;
}

// Makes one start after another, [T, d], of vectors whose length does not matter.
class TransformerStarts {
 public:
  TransformerStarts(const Model& model, int64_t length)
      : length_(length), layers_(layers_of(model)), heads_(layers_.front().query.heads) {
    for (size_t l = 0; l < layers_.size(); ++l) {
      const auto norms = [&](const Param& weight) { return leading(blocks_of(weight, heads_)).norms; };
      const at::Tensor content =
          norms(layers_[l].query).mul(norms(layers_[l].key)).mul(norms(layers_[l].value));
      for (int64_t h = 0; h < heads_; ++h) places_.push_back({content[h].item<double>(), l, h});
    }
    std::stable_sort(places_.begin(), places_.end(),
                     [](const Place& a, const Place& b) { return a.content > b.content; });
  }

  // Keys and values that one head tells apart as well as it can, read by a query that it sees as well as it can: the head
  // whose content counts for the `turn`-th most.
  at::Tensor one_head(size_t turn) const {
    const Place& place = places_[turn % places_.size()];
    const Layer& layer = layers_[place.layer];
    const at::Tensor read = keys_and_values(layer)[place.head];
    at::Tensor x = at::zeros({length_, read.size(0)}, at::kDouble);
    for (int64_t t = 0; t < length_; ++t) x[t].copy_(t % 2 == 0 ? read : read.neg());
    if (length_ > 2) x[length_ - 1].copy_(leading(blocks_of(layer.query, heads_)).right[place.head]);
    return x;
  }

  // Every head finds the token that it reads best, in the layer where content counts for most.
  at::Tensor different_tokens(size_t turn) const {
    const Layer& layer = layers_[(places_[0].layer + turn) % layers_.size()];
    const at::Tensor read = keys_and_values(layer);
    at::Tensor x = at::zeros({length_, read.size(1)}, at::kDouble);
    for (int64_t t = 0; t < length_; ++t) x[t].copy_(read[t % heads_].mul(t / heads_ % 2 == 0 ? 1.0 : -1.0));
    if (length_ > 1) x[length_ - 1].copy_(leading_vector(layer.query));
    return x;
  }

  // One direction in all sizes: GeLU is steepest at √2.
  at::Tensor feed_forward(size_t turn) const {
    const at::Tensor up = leading_vector(layers_[turn % layers_.size()].up);
    std::vector<at::Tensor> tokens;
    for (int64_t t = 0; t < length_; ++t)
      tokens.push_back(up.mul(static_cast<double>(t + 1) / static_cast<double>(length_)));
    return at::stack(tokens);
  }

 private:
  struct Place {
    double content;
    size_t layer;
    int64_t head;
  };

  // [H, d]: what both keys and values of a head see well.
  at::Tensor keys_and_values(const Layer& layer) const {
    const auto balanced = [this](const Param& weight) {
      const at::Tensor blocks = blocks_of(weight, heads_);
      return blocks.div(leading(blocks).norms.clamp_min(1e-300).view({heads_, 1, 1}));
    };
    const at::Tensor both = at::cat({balanced(layer.key), balanced(layer.value)}, 1);
    return leading(both).right;
  }

  int64_t length_;
  std::vector<Layer> layers_;
  int64_t heads_;
  std::vector<Place> places_;
};

// RMS relative to the longest token, times `domain`.
at::Tensor scaled_to(const at::Tensor& x, double domain) {
  const double largest = x.square().mean(-1).max().sqrt().item<double>();
  return x.mul(domain / std::max(largest, 1e-300));
}

at::Tensor on_surface(const at::Tensor& x, double domain) {
  return x.mul(domain).div(x.square().mean(-1, /*keepdim=*/true).sqrt().clamp_min(1e-300));
}

at::Tensor random_start(at::IntArrayRef shape, const SearchOptions& options, uint64_t step) {
  return on_surface(
      random_normal(shape, {.seed = options.seed, .stream = Stream::search, .step = step}, at::kDouble),
      options.domain);
}

}  // namespace

at::Tensor search_starts(const Model& model, const SearchOptions& options) {
  const bool tokens = model.shape().input == InputKind::tokens;
  const int64_t size = model.shape().size;
  const std::vector<int64_t> shape =
      tokens ? std::vector<int64_t>{options.sequence_length, size} : std::vector<int64_t>{size};
  std::optional<TransformerStarts> structured;
  if (tokens && !layers_of(model).empty()) structured.emplace(model, options.sequence_length);
  std::vector<at::Tensor> starts;
  for (int i = 0; i < options.starts; ++i) {
    const at::Tensor random = random_start(shape, options, 2 * static_cast<uint64_t>(i));
    const auto turn = static_cast<size_t>(i / 4);
    at::Tensor start = random;
    if (structured && i % 4 == 0) start = on_surface(structured->one_head(turn), options.domain);
    if (structured && i % 4 == 1) start = on_surface(structured->different_tokens(turn), options.domain);
    if (structured && i % 4 == 2) start = scaled_to(structured->feed_forward(turn), options.domain);
    if (!tokens && i % 4 == 0) start = on_surface(leading_vector(model.params().front()), options.domain);
    // A little noise: exact symmetry is often a saddle.
    starts.push_back(scaled_to(start.add(random, 0.05), options.domain));
  }
  return at::stack(starts).to(model.params().front().tensor.device());
}

}  // namespace bridle
