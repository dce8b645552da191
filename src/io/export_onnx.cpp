#include "io/export_onnx.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/outer.h>
#include <ATen/ops/tensor.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <stdexcept>

#include "base/overloaded.h"
#include "bridle/error.h"
#include "io/onnx_graph.h"
#include "nn/heads.h"
#include "nn/mixing.h"
#include "nn/norm.h"
#include "nn/positions.h"
#include "nn/residual.h"
#include "nn/rope.h"

namespace bridle {
namespace {

using Value = std::string;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// What both kinds of models are made of.
class Builder {
 public:
  Builder(const Model& model, const std::string& name) : graph(name) {
    for (const Param& param : model.params()) weights_[param.name] = param.tensor.detach();
  }

  const at::Tensor& weight(const std::string& name) const { return weights_.at(name); }
  bool has(const std::string& name) const { return weights_.contains(name); }

  Value op(const char* type, const std::vector<Value>& inputs,
           const std::map<std::string, OnnxAttribute>& attributes = {}) {
    return graph.apply(type, inputs, attributes);
  }
  Value add(const Value& a, const Value& b) { return op("Add", {a, b}); }
  Value mul(const Value& a, const Value& b) { return op("Mul", {a, b}); }
  Value times(const Value& a, double b) { return b == 1.0 ? a : mul(a, graph.constant(b)); }
  Value mean(const Value& x) {
    return op("ReduceMean", {x}, {{"axes", std::vector<int64_t>{-1}}, {"keepdims", int64_t{1}}});
  }
  Value slice(const Value& x, int64_t axis, int64_t begin, int64_t end) {
    return op("Slice", {x, graph.integers({begin}), graph.integers({end}), graph.integers({axis})});
  }
  Value product(const Value& x, const at::Tensor& matrix) {
    return op("MatMul", {x, graph.constant(matrix.t())});
  }
  Value linear(const Value& x, const std::string& name) {
    const Value y = product(x, weight(name + ".weight"));
    return has(name + ".bias") ? add(y, graph.constant(weight(name + ".bias"))) : y;
  }

  Value gelu(const Value& x) {
    const Value inner = op("Erf", {times(x, std::numbers::sqrt2 / 2.0)});
    return mul(times(x, 0.5), add(inner, graph.constant(1.0)));
  }
  Value gelu_tanh(const Value& x) {
    const Value cube = mul(mul(x, x), x);
    const Value inner = times(add(x, times(cube, 0.044715)), std::sqrt(2.0 / std::numbers::pi));
    return mul(times(x, 0.5), add(op("Tanh", {inner}), graph.constant(1.0)));
  }
  // Pairs of neighbours along a dimension of their own.
  Value maxmin(const Value& x, int64_t dimensions) {
    std::vector<int64_t> pairs(static_cast<size_t>(dimensions) - 1, 0), flat(pairs);
    pairs.insert(pairs.end(), {-1, 2});
    flat.push_back(-1);
    const Value split = op("Reshape", {x, graph.integers(pairs)});
    const std::map<std::string, OnnxAttribute> last{{"axes", std::vector<int64_t>{-1}},
                                                    {"keepdims", int64_t{1}}};
    const Value sorted = op("Concat", {op("ReduceMax", {split}, last), op("ReduceMin", {split}, last)},
                            {{"axis", int64_t{-1}}});
    return op("Reshape", {sorted, graph.integers(flat)});
  }
  Value activation(ActivationKind kind, const Value& x, int64_t dimensions) {
    switch (kind) {
      case ActivationKind::gelu:
        return gelu(x);
      case ActivationKind::gelu_tanh:
        return gelu_tanh(x);
      case ActivationKind::relu:
        return op("Relu", {x});
      case ActivationKind::maxmin:
        return maxmin(x, dimensions);
      case ActivationKind::abs:
        return op("Abs", {x});
      case ActivationKind::relu_squared: {
        const Value positive = op("Relu", {x});
        return mul(positive, positive);
      }
      case ActivationKind::tanh:
        return op("Tanh", {x});
      case ActivationKind::silu:
        return mul(x, op("Sigmoid", {x}));
    }
    throw std::logic_error("an activation without ONNX operators");
  }

  OnnxGraph graph;

 private:
  std::map<std::string, at::Tensor> weights_;
};

std::string build(const MlpOptions& o, Builder& b, const std::map<std::string, std::string>& metadata) {
  Value x = b.graph.input("input", at::kFloat, {"batch", o.layer_sizes.front()});
  const size_t last = o.layer_sizes.size() - 2;
  for (size_t i = 0; i < last; ++i)
    x = b.activation(o.activation, b.linear(x, fmt::format("model.layers.{}", i)), 2);
  const std::string head = fmt::format("model.layers.{}", last);
  x = b.times(b.product(x, b.weight(head + ".weight")), o.final_scale);
  if (o.bias) x = b.add(x, b.graph.constant(b.weight(head + ".bias")));
  b.graph.output(x, "logits", {"batch", o.layer_sizes.back()});
  return b.graph.serialized(metadata);
}

class TransformerBuilder {
 public:
  TransformerBuilder(const TransformerOptions& options, Builder& builder) : o_(options), b_(builder) {}

  void build() {
    const Value tokens = b_.graph.input("tokens", at::kLong, {"batch", "length"});
    read_places(tokens);
    Value x = b_.op("Gather", {b_.graph.constant(b_.weight("model.embed_tokens.weight")), tokens});
    if (o_.positions == PositionKind::learned)
      x = b_.add(x, up_to_length(b_.graph.constant(b_.weight("model.embed_positions.weight"))));
    for (int64_t layer = 0; layer < o_.num_hidden_layers; ++layer) x = block(x, layer);
    if (!o_.norm_after) x = norm(x, "model.norm");
    b_.graph.output(logits(x), "logits", {"batch", "length", o_.real_vocab_size});
  }

 private:
  Value unsqueezed(const Value& x, int64_t axis) {
    return b_.op("Unsqueeze", {x, b_.graph.integers({axis})});
  }
  Value up_to_length(const Value& rows) {
    return b_.op("Slice", {rows, b_.graph.integers({0}), unsqueezed(length_, 0), b_.graph.integers({0})});
  }
  Value cast(const Value& x, int64_t type) { return b_.op("Cast", {x}, {{"to", type}}); }

  // x moved `places` tokens to the right along dimension 1, with a value where nothing comes from.
  Value moved(const Value& x, int64_t places, int64_t dimensions, double fill) {
    std::vector<int64_t> pads(static_cast<size_t>(2 * dimensions), 0);
    pads[1] = places;
    const Value padded = b_.op("Pad", {x, b_.graph.integers(pads), b_.graph.constant(fill)});
    return b_.slice(padded, 1, 0, -places);
  }

  void read_places(const Value& tokens) {
    constexpr int64_t kFloatType = 1;
    length_ = b_.op("Gather", {b_.op("Shape", {tokens}), b_.graph.integer(1)}, {{"axis", int64_t{0}}});
    place_ = b_.op("Range", {b_.graph.integer(0), length_, b_.graph.integer(1)});
    column_ = unsqueezed(place_, 0);
    distance_ = b_.op("Sub", {unsqueezed(place_, 1), column_});
    if (o_.document_token < 0) return;
    const Value fresh = cast(b_.op("Equal", {tokens, b_.graph.integer(o_.document_token)}), kFloatType);
    place_float_ = cast(place_, kFloatType);
    Value begins = b_.mul(fresh, place_float_);  // [B, T], below 2^24 and so exact
    for (int64_t step = 1; step < o_.max_position_embeddings; step *= 2)
      begins = b_.op("Max", {begins, moved(begins, step, 2, 0.0)});
    begins_ = begins;
  }

  // 0 where a token sees another one, else −∞: [T, T], or [B, 1, T, T] where there are documents.
  Value mask(int64_t layer) {
    Value hidden = b_.op("Less", {distance_, b_.graph.integer(0)});
    const Visibility sees = visibility(o_, layer);
    if (sees.window > 0) {
      const Value in_block = b_.op("Mod", {place_, b_.graph.integer(sees.block)});
      const Value start = b_.op("Sub", {place_, in_block});
      const Value first = b_.add(start, b_.graph.integer(sees.block - sees.reach()));
      hidden = b_.op("Or", {hidden, b_.op("Less", {column_, unsqueezed(first, 1)})});
    }
    if (!begins_.empty()) {
      const Value earlier =
          b_.op("Less", {unsqueezed(place_float_, 0), unsqueezed(begins_, 2)});  // [B, T, T]
      hidden = unsqueezed(b_.op("Or", {hidden, earlier}), 1);
    }
    return b_.op("Where", {hidden, b_.graph.constant(-kInfinity), b_.graph.constant(0.0)});
  }

  Value position_bias(const std::string& name) {  // [H, T, T]
    const at::Tensor& table = b_.weight(name + ".position_bias");
    const Value offset = b_.op("Clip", {distance_, b_.graph.integer(0), b_.graph.integer(table.size(1) - 1)});
    return b_.op("Gather", {b_.graph.constant(table), offset}, {{"axis", int64_t{1}}});
  }

  Value norm(const Value& x, const std::string& name) {
    const auto affine = [&](Value y) {
      if (b_.has(name + ".weight")) y = b_.mul(y, b_.graph.constant(b_.weight(name + ".weight")));
      return b_.has(name + ".bias") ? b_.add(y, b_.graph.constant(b_.weight(name + ".bias"))) : y;
    };
    switch (o_.norm) {
      case NormLayer::none:
        return x;
      case NormLayer::tanh:
        return b_.op("Tanh", {x});
      case NormLayer::rms_norm:
        return affine(divided_by_rms(x, o_.norm_epsilon));
      case NormLayer::layer_norm:
        return affine(divided_by_rms(b_.op("Sub", {x, b_.mean(x)}), o_.norm_epsilon));
      case NormLayer::center_norm: {
        const auto d = static_cast<double>(o_.hidden_size);
        return affine(b_.times(b_.op("Sub", {x, b_.mean(x)}), d / (d - 1.0)));
      }
    }
    throw std::logic_error("a norm without ONNX operators");
  }
  Value divided_by_rms(const Value& x, double epsilon) {
    const Value square = b_.add(b_.mean(b_.mul(x, x)), b_.graph.constant(epsilon));
    return b_.op("Div", {x, b_.op("Sqrt", {square})});
  }

  Value split_heads(const Value& x, int64_t heads) {
    const Value apart = b_.op("Reshape", {x, b_.graph.integers({0, 0, heads, o_.head_size()})});
    return b_.op("Transpose", {apart}, {{"perm", std::vector<int64_t>{0, 2, 1, 3}}});
  }
  Value rotated(const Value& x) {
    const int64_t half = o_.head_size() / 2;
    if (cosine_.empty()) {
      const at::Tensor frequencies = at::tensor(rope_frequencies({.head_size = o_.head_size(),
                                                                  .theta = o_.rope_theta,
                                                                  .half_truncated = o_.rope_half_truncated}),
                                                at::kDouble);
      const at::Tensor angles = at::outer(at::arange(o_.max_position_embeddings, at::kDouble), frequencies);
      cosine_ = up_to_length(b_.graph.constant(angles.cos()));
      sine_ = up_to_length(b_.graph.constant(angles.sin()));
    }
    const Value first = b_.slice(x, 3, 0, half), second = b_.slice(x, 3, half, 2 * half);
    return b_.op("Concat",
                 {b_.op("Sub", {b_.mul(first, cosine_), b_.mul(second, sine_)}),
                  b_.add(b_.mul(second, cosine_), b_.mul(first, sine_))},
                 {{"axis", int64_t{3}}});
  }
  Value serving(const Value& x) {
    if (o_.num_key_value_heads == o_.num_attention_heads) return x;
    std::vector<int64_t> own;
    for (int64_t h = 0; h < o_.num_attention_heads; ++h)
      own.push_back(serving_head(h, o_.num_attention_heads, o_.num_key_value_heads));
    return b_.op("Gather", {x, b_.graph.integers(own)}, {{"axis", int64_t{1}}});
  }
  Value attention(const Value& x, const std::string& name, int64_t layer) {
    Value q = split_heads(b_.linear(x, name + ".q_proj"), o_.num_attention_heads);
    Value k = split_heads(b_.linear(x, name + ".k_proj"), o_.num_key_value_heads);
    Value v = split_heads(b_.linear(x, name + ".v_proj"), o_.num_key_value_heads);
    if (o_.positions == PositionKind::rope) {
      q = rotated(q);
      k = rotated(k);
    }
    if (o_.qk_norm) {
      q = divided_by_rms(q, o_.qk_norm_epsilon);
      k = divided_by_rms(k, o_.qk_norm_epsilon);
    }
    if (o_.value_norm) v = divided_by_rms(v, o_.qk_norm_epsilon);
    k = serving(k);
    v = serving(v);
    q = b_.times(q, o_.softmax_scale / static_cast<double>(o_.head_size()));
    const Value turned = b_.op("Transpose", {k}, {{"perm", std::vector<int64_t>{0, 1, 3, 2}}});
    Value seen = mask(layer);
    if (o_.position_bias) seen = b_.add(position_bias(name), seen);
    const Value shares =
        b_.op("Softmax", {b_.add(b_.op("MatMul", {q, turned}), seen)}, {{"axis", int64_t{-1}}});
    const Value heads =
        b_.op("Transpose", {b_.op("MatMul", {shares, v})}, {{"perm", std::vector<int64_t>{0, 2, 1, 3}}});
    const Value together = b_.op("Reshape", {heads, b_.graph.integers({0, 0, o_.hidden_size})});
    return b_.linear(scaled(together, name + ".output_scale", o_.attention_output_scale), name + ".o_proj");
  }
  Value scaled(const Value& x, const std::string& learned, double fixed) {
    return b_.has(learned) ? b_.mul(x, b_.graph.constant(b_.weight(learned))) : b_.times(x, fixed);
  }

  // max over tokens so far of v − λ·distance: after a step of s it covers the last 2s tokens.
  Value memory(const Value& x, const std::string& name) {
    const auto d = static_cast<double>(o_.hidden_size), channels = static_cast<double>(o_.memory_channels);
    Value most =
        b_.times(b_.product(x, b_.weight(name + ".memory_proj.weight")), 1.0 / std::sqrt(channels * d));
    const at::Tensor decay =
        b_.weight(name + ".memory_log_decay").to(at::kDouble).clamp_max(kLargestLogDecay).exp();
    for (int64_t step = 1; step < o_.max_position_embeddings; step *= 2) {
      const auto far = static_cast<double>(step);
      Value earlier = b_.op("Sub", {moved(most, step, 3, -kInfinity), b_.graph.constant(decay.mul(far))});
      if (!begins_.empty()) {
        const Value reached = b_.op("Sub", {place_float_, b_.graph.constant(far)});
        const Value outside = unsqueezed(b_.op("Less", {reached, begins_}), 2);
        earlier = b_.op("Where", {outside, b_.graph.constant(-kInfinity), earlier});
      }
      most = b_.op("Max", {most, earlier});
    }
    return most;
  }
  Value mixing(const Value& x, const std::string& name, int64_t layer) {
    const at::Tensor c = b_.weight(name + ".coefficients").to(at::kDouble);
    const Value shares =
        b_.op("Softmax", {b_.add(position_bias(name), mask(layer))}, {{"axis", int64_t{-1}}});
    const Value means = b_.op("MatMul", {shares, unsqueezed(x, 1)});  // [B, H, T, d]
    std::vector<Value> parts{b_.times(x, c[0].item<double>())};
    for (int64_t h = 0; h < o_.num_attention_heads; ++h) {
      const Value own = b_.op("Gather", {means, b_.graph.integer(h)}, {{"axis", int64_t{1}}});
      parts.push_back(b_.times(own, c[1 + h].item<double>()));
    }
    if (o_.memory_channels > 0)
      parts.push_back(b_.times(memory(x, name), c[1 + o_.num_attention_heads].item<double>()));
    return b_.linear(b_.op("Concat", parts, {{"axis", int64_t{-1}}}), name + ".out_proj");
  }

  Value feed_forward(const Value& x, const std::string& name) {
    const Value first = b_.linear(x, name + (o_.gated ? ".gate_proj" : ".up_proj"));
    Value active = b_.times(b_.activation(o_.activation, first, 3), 1.0 / o_.activation_divisor);
    if (o_.gated) active = b_.mul(active, b_.linear(x, name + ".up_proj"));
    return b_.linear(active, name + ".down_proj");
  }
  Value residual(const Value& x, const Value& branch, const std::string& learned, double alpha) {
    const bool convex = is_convex(o_.residual);
    const Value change = convex ? b_.op("Sub", {branch, x}) : branch;
    return b_.add(x, scaled(change, learned, convex ? alpha : 1.0));
  }
  Value block(Value x, int64_t layer) {
    const std::string name = fmt::format("model.layers.{}", layer);
    const auto around = [&](const std::string& norm_name, const std::string& alpha, double fixed,
                            auto branch) {
      const Value fed = o_.norm_after ? x : norm(x, norm_name);
      x = residual(x, branch(fed), alpha, fixed);
      if (o_.norm_after) x = norm(x, norm_name);
    };
    switch (o_.mixing) {
      case MixingKind::attention:
        around(name + ".input_layernorm", name + ".attention_alpha", o_.attention_alpha,
               [&](const Value& y) { return attention(y, name + ".self_attn", layer); });
        break;
      case MixingKind::quadrature:
        x = mixing(x, name + ".mixing", layer);
        break;
    }
    around(name + ".post_attention_layernorm", name + ".mlp_alpha", o_.mlp_alpha,
           [&](const Value& y) { return feed_forward(y, name + ".mlp"); });
    return x;
  }

  Value logits(const Value& x) {
    const at::Tensor& rows = b_.weight(o_.tie_embeddings ? "model.embed_tokens.weight" : "lm_head.weight");
    Value z = scaled(b_.product(x, rows.narrow(0, 0, o_.real_vocab_size)), "final_scale", o_.final_scale);
    if (o_.logit_bias) z = b_.add(z, b_.graph.constant(b_.weight("logit_bias")));
    if (o_.logit_soft_cap == 0.0) return z;
    return b_.times(b_.op("Tanh", {b_.times(z, 1.0 / o_.logit_soft_cap)}), o_.logit_soft_cap);
  }

  const TransformerOptions& o_;
  Builder& b_;
  Value length_, place_, column_, distance_;  // T; [T]; [1, T]; [T, T], i − j
  Value place_float_, begins_;                // where there are documents
  Value cosine_, sine_;                       // [T, h/2], made once
};

std::string build(const TransformerOptions& o, Builder& b,
                  const std::map<std::string, std::string>& metadata) {
  if (o.content_heads > 0)
    throw InputError(
        "export",
        fmt::format("--format onnx has no content_heads yet, got {}; --format torch has", o.content_heads));
  if (o.residual == ResidualKind::quadrature)
    throw InputError("export", "--format onnx has no residual = quadrature yet; --format torch has");
  TransformerBuilder(o, b).build();
  return b.graph.serialized(metadata);
}

}  // namespace

std::string onnx_bytes(const Model& model, const std::string& name,
                       const std::map<std::string, std::string>& metadata) {
  const std::optional<ModelOptions> options = model.options();
  if (!options) throw InputError("export", "no options describe this model, so it cannot be exported");
  Builder builder(model, name);
  return std::visit([&](const auto& own) { return build(own, builder, metadata); }, *options);
}

}  // namespace bridle
