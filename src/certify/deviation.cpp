#include "certify/deviation.h"

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <stdexcept>

#include "bridle/error.h"
#include "nn/activation.h"
#include "nn/heads.h"
#include "nn/linear.h"
#include "nn/model_options.h"
#include "nn/norm.h"
#include "nn/norms.h"
#include "nn/residual.h"

namespace bridle {
namespace {

// A difference in float64 is rounded in every entry: by at most 2⁻⁵³ of it, which moves no norm by more than this.
constexpr double kSubtraction = 1.0 + 0x1p-30;

// What is known of a signal in both models at once: bounds of its norm in each, and of the difference.
struct Pair {
  UpperBound original = {}, changed = {}, apart = {};
  UpperBound largest() const { return max(original, changed); }
};

// A weight in both models, and what it has changed by.
struct Weight {
  Param original, changed, difference;
};

std::map<std::string, Weight> weights_of(const Model& original, const Model& changed) {
  const std::vector<Param> first = original.certified_weights(), second = changed.certified_weights();
  std::map<std::string, Weight> all;
  for (size_t i = 0; i < first.size(); ++i) {
    const Param &a = first[i], &b = second.at(i);
    if (a.name != b.name || a.tensor.sizes() != b.tensor.sizes())
      throw InputError("deviation",
                       fmt::format("both models must have the same weights; one has {}", a.name));
    const at::Tensor from = a.tensor.detach().cpu().to(at::kDouble),
                     to = b.tensor.detach().cpu().to(at::kDouble);
    if (!is_matrix(a.role) && !is_table(a.role) && !from.equal(to))
      throw InputError("deviation", fmt::format("only matrices and tables may differ, and {} ({}) does",
                                                a.name, role_name(a.role)));
    Weight weight{a, b, a};
    weight.difference.name = a.name + ", what it changed by";
    weight.difference.tensor = from.sub(to);
    all.emplace(a.name, weight);
  }
  return all;
}

// Statements 2 to 9 of docs/theory/deviation.md, module by module.
class Apart {
 public:
  Apart(const Model& original, const Model& changed)
      : weights_(weights_of(original, changed)), norms_(measured_norms()) {}

  bool has(const std::string& name) const { return weights_.contains(name); }
  const Weight& at(const std::string& name) const { return weights_.at(name); }
  NormSource& norms() { return *norms_; }

  UpperBound norm(const Param& weight) { return norms_->matrix(weight) * kSubtraction; }
  UpperBound row_rms(const Param& weight) { return norms_->largest_row_rms(weight) * kSubtraction; }
  std::vector<UpperBound> heads(const Param& weight, int64_t count) {
    std::vector<UpperBound> all = per_query_head(norms_->heads(weight, weight.heads), count);
    for (UpperBound& own : all) own = own * kSubtraction;
    return all;
  }
  UpperBound bias(const std::string& name, int64_t size) {
    return has(name) ? norms_->euclidean(at(name).original) * root_of_ratio(1, size) : UpperBound(0.0);
  }

  // Wx + b, W and b by their name.
  Pair linear(const Pair& x, const std::string& name, double scale = 1.0) {
    const Weight& weight = at(name + ".weight");
    const int64_t rows = weight.original.tensor.size(0), columns = weight.original.tensor.size(1);
    const UpperBound unit = root_of_ratio(columns, rows) * std::abs(scale);
    const UpperBound own = norm(weight.original) * unit, other = norm(weight.changed) * unit;
    const UpperBound offset = bias(name + ".bias", rows);
    return {.original = own * x.original + offset,
            .changed = other * x.changed + offset,
            .apart = own * x.apart + norm(weight.difference) * unit * x.changed};
  }

 private:
  std::map<std::string, Weight> weights_;
  std::unique_ptr<NormSource> norms_;
};

// Between two signals of the ball the segment stays in it, so the module's stretch there bounds what it makes of the difference.
Pair activated(const Activation& f, const Pair& x, int64_t size) {
  const auto gain = [&](const UpperBound& a) {
    return f.bound({.activation = a, .lipschitz = 1.0}, size).activation;
  };
  return {.original = gain(x.original),
          .changed = gain(x.changed),
          .apart = f.bound({.activation = x.largest(), .lipschitz = x.apart}, size).lipschitz};
}

class TransformerWalk {
 public:
  TransformerWalk(const TransformerOptions& options, Apart& apart)
      : o_(options), w_(apart), activation_(options.activation, options.activation_divisor) {}

  DeviationBound walk() {
    const Weight& table = w_.at("model.embed_tokens.weight");
    Pair x{w_.row_rms(table.original), w_.row_rms(table.changed), w_.row_rms(table.difference)};
    result_.domain_radius = x.largest().to_double();
    if (o_.positions == PositionKind::learned) {
      const Weight& rows = w_.at("model.embed_positions.weight");
      x = {x.original + w_.row_rms(rows.original), x.changed + w_.row_rms(rows.changed),
           x.apart + w_.row_rms(rows.difference)};
    }
    record("model.embed_tokens", x);
    for (int64_t i = 0; i < o_.num_hidden_layers; ++i) x = block(x, fmt::format("model.layers.{}", i));
    head(o_.norm_after ? x : norm(x, "model.norm"));
    return result_;
  }

 private:
  void record(const std::string& name, const Pair& x) {
    result_.layers.push_back({name, StatedBound::of(x.apart)});
  }

  Pair block(Pair x, const std::string& name) {
    const auto around = [&](const std::string& norm_name, const std::string& alpha, double fixed,
                            auto branch) {
      const Pair fed = branch(o_.norm_after ? x : norm(x, norm_name));
      x = residual(x, fed, alpha, fixed);
      if (o_.norm_after) x = norm(x, norm_name);
    };
    switch (o_.mixing) {
      case MixingKind::attention:
        around(name + ".input_layernorm", name + ".attention_alpha", o_.attention_alpha,
               [&](const Pair& y) { return attention(y, name + ".self_attn"); });
        record(name + ".self_attn", x);
        break;
      case MixingKind::quadrature:
        x = mixing(x, name + ".mixing");
        record(name + ".mixing", x);
        break;
    }
    around(name + ".post_attention_layernorm", name + ".mlp_alpha", o_.mlp_alpha,
           [&](const Pair& y) { return feed_forward(y, name + ".mlp"); });
    record(name + ".mlp", x);
    return x;
  }

  Pair norm(const Pair& x, const std::string& name) {
    const UpperBound gain = w_.has(name + ".weight")
                                ? w_.norms().largest_entry(w_.at(name + ".weight").original)
                                : UpperBound(1.0);
    const UpperBound offset = w_.bias(name + ".bias", o_.hidden_size);
    switch (o_.norm) {
      case NormLayer::none:
      case NormLayer::tanh:
        return x;
      case NormLayer::rms_norm:
      case NormLayer::layer_norm:
        return {gain + offset, gain + offset, gain * rms_slope(o_.norm_epsilon) * x.apart};
      case NormLayer::center_norm: {
        const UpperBound own =
            gain * static_cast<double>(o_.hidden_size) / static_cast<double>(o_.hidden_size - 1);
        return {own * x.original + offset, own * x.changed + offset, own * x.apart};
      }
    }
    throw std::logic_error("a norm without a deviation");
  }

  Pair residual(const Pair& x, const Pair& branch, const std::string& learned, double fixed) {
    const bool convex = is_convex(o_.residual), has_alpha = w_.has(learned);
    NormSource::Entries alpha{fixed, fixed};
    if (has_alpha) alpha = w_.norms().entries(w_.at(learned).original).value();
    const double share = convex || has_alpha ? std::max(std::abs(alpha.least), std::abs(alpha.largest)) : 1.0;
    const double kept = std::max(std::abs(1.0 - alpha.least), std::abs(1.0 - alpha.largest));
    const UpperBound rest = convex ? std::nextafter(kept, std::numeric_limits<double>::infinity()) : 1.0;
    const auto sum = [&](const UpperBound& a, const UpperBound& b) { return rest * a + share * b; };
    return {sum(x.original, branch.original), sum(x.changed, branch.changed), sum(x.apart, branch.apart)};
  }

  // Of a head's queries, keys or values in one model: how much a token is stretched, and how long a vector can be.
  struct Projection {
    std::vector<UpperBound> stretch, length;
  };
  Projection projection(const Param& weight, const std::string& name, const UpperBound& token, bool normed) {
    Projection result{w_.heads(weight, o_.num_attention_heads), {}};
    std::vector<UpperBound> biases(result.stretch.size());
    if (w_.has(name + ".bias"))
      biases = per_query_head(w_.norms().euclidean_heads(w_.at(name + ".bias").original, weight.heads),
                              o_.num_attention_heads);
    for (size_t h = 0; h < biases.size(); ++h) {
      UpperBound length = result.stretch[h] * token + biases[h];
      if (normed) {
        length = min(root_of_ratio(o_.head_size(), 1), length * rms_slope(o_.qk_norm_epsilon));
        result.stretch[h] = result.stretch[h] * rms_slope(o_.qk_norm_epsilon);
      }
      result.length.push_back(length);
    }
    return result;
  }
  // What a head's vectors differ by, of tokens that are the same: σ(ΔW)·|x|, and 1/√ε times that.
  std::vector<UpperBound> moved(const Param& difference, const UpperBound& token, bool normed) {
    std::vector<UpperBound> all = w_.heads(difference, o_.num_attention_heads);
    for (UpperBound& own : all)
      own = own * token * (normed ? rms_slope(o_.qk_norm_epsilon) : UpperBound(1.0));
    return all;
  }

  // Statement 6: first the original model's stretch, then, at the changed model's input, one weight after the other.
  Pair attention(const Pair& x, const std::string& name) {
    const UpperBound root = root_of_ratio(o_.hidden_size, 1);
    const Weight &q = w_.at(name + ".q_proj.weight"), &k = w_.at(name + ".k_proj.weight"),
                 &v = w_.at(name + ".v_proj.weight"), &out = w_.at(name + ".o_proj.weight");
    const auto of = [&](const Weight& weight, bool changed, const char* part, const UpperBound& a,
                        bool normed) {
      return projection(changed ? weight.changed : weight.original, name + part, root * a, normed);
    };
    const UpperBound scale = UpperBound(std::abs(o_.softmax_scale)) / static_cast<double>(o_.head_size());
    const Projection q_ball = of(q, false, ".q_proj", x.largest(), o_.qk_norm),
                     k_ball = of(k, false, ".k_proj", x.largest(), o_.qk_norm),
                     v_ball = of(v, false, ".v_proj", x.largest(), o_.value_norm);
    const Projection q_new = of(q, true, ".q_proj", x.changed, o_.qk_norm),
                     k_old = of(k, false, ".k_proj", x.changed, o_.qk_norm),
                     v_old = of(v, false, ".v_proj", x.changed, o_.value_norm),
                     v_new = of(v, true, ".v_proj", x.changed, o_.value_norm),
                     v_first = of(v, false, ".v_proj", x.original, o_.value_norm);
    const auto dq = moved(q.difference, root * x.changed, o_.qk_norm),
               dk = moved(k.difference, root * x.changed, o_.qk_norm),
               dv = moved(v.difference, root * x.changed, o_.value_norm);
    UpperBound stretch = 0.0, shift = 0.0, of_original = 0.0, of_changed = 0.0;
    const auto add_square = [](UpperBound& sum, const UpperBound& value) { sum += value * value; };
    for (size_t h = 0; h < dq.size(); ++h) {
      add_square(stretch, v_ball.stretch[h] + scale * v_ball.length[h] *
                                                  (q_ball.stretch[h] * k_ball.length[h] +
                                                   q_ball.length[h] * k_ball.stretch[h]));
      const UpperBound logits = scale * (dq[h] * k_old.length[h] + q_new.length[h] * dk[h]);
      add_square(shift, dv[h] + v_old.length[h] * min(logits, UpperBound(2.0)));
      add_square(of_original, v_first.length[h]);
      add_square(of_changed, v_new.length[h]);
    }
    const std::string learned = name + ".output_scale";
    const UpperBound c = w_.has(learned) ? w_.norms().largest_entry(w_.at(learned).original)
                                         : UpperBound(std::abs(o_.attention_output_scale));
    const UpperBound one = root_of_ratio(1, o_.hidden_size);
    const UpperBound own = c * w_.norm(out.original), offset = w_.bias(name + ".o_proj.bias", o_.hidden_size);
    return {.original = own * sqrt(of_original) * one + offset,
            .changed = c * w_.norm(out.changed) * sqrt(of_changed) * one + offset,
            .apart = own * (sqrt(stretch) * x.apart + sqrt(shift) * one) +
                     c * w_.norm(out.difference) * sqrt(of_changed) * one};
  }

  // Statement 7.
  Pair mixing(const Pair& x, const std::string& name) {
    const Weight& out = w_.at(name + ".out_proj.weight");
    const Param& coefficients = w_.at(name + ".coefficients").original;
    const UpperBound c = w_.norms().euclidean(coefficients);
    UpperBound original = 1.0, changed = 1.0, remembered = 0.0;
    if (o_.memory_channels > 0) {
      const Weight& table = w_.at(name + ".memory_proj.weight");
      original = max(original, w_.row_rms(table.original));
      changed = max(changed, w_.row_rms(table.changed));
      const double of_memory = coefficients.tensor.detach()[1 + o_.num_attention_heads].item<double>();
      remembered = w_.row_rms(table.difference) * std::abs(of_memory);
    }
    const UpperBound own = w_.norm(out.original), other = w_.norm(out.changed);
    return {.original = own * c * original * x.original,
            .changed = other * c * changed * x.changed,
            .apart = own * (c * original * x.apart + remembered * x.changed) +
                     w_.norm(out.difference) * c * changed * x.changed};
  }

  // The largest entry of Wx + b in one of the models.
  UpperBound largest_entry(const Param& weight, const std::string& bias, const UpperBound& a,
                           const UpperBound& rms) {
    const UpperBound by_row =
        w_.row_rms(weight) * static_cast<double>(o_.hidden_size) * a +
        (w_.has(bias) ? w_.norms().largest_entry(w_.at(bias).original) : UpperBound(0.0));
    return min(by_row, root_of_ratio(o_.intermediate_size, 1) * rms);
  }

  // Statement 8.
  Pair feed_forward(const Pair& x, const std::string& name) {
    const Pair up = w_.linear(x, name + ".up_proj");
    if (!o_.gated) return w_.linear(activated(activation_, up, o_.intermediate_size), name + ".down_proj");
    const Pair before = w_.linear(x, name + ".gate_proj");
    const Pair gate = activated(activation_, before, o_.intermediate_size);
    const Weight &u = w_.at(name + ".up_proj.weight"), &g = w_.at(name + ".gate_proj.weight");
    const auto most_up = [&](const Param& w, const UpperBound& a, const UpperBound& rms) {
      return largest_entry(w, name + ".up_proj.bias", a, rms);
    };
    const auto most_gate = [&](const Param& w, const UpperBound& a, const UpperBound& rms) {
      return activation_.largest_entry(largest_entry(w, name + ".gate_proj.bias", a, rms));
    };
    const UpperBound up_old = most_up(u.original, x.original, up.original),
                     gate_new = most_gate(g.changed, x.changed, before.changed);
    const Pair product{.original = up_old * gate.original,
                       .changed = gate_new * up.changed,
                       .apart = up_old * gate.apart + gate_new * up.apart};
    return w_.linear(product, name + ".down_proj");
  }

  // Statement 9.
  void head(const Pair& x) {
    const Weight& rows = w_.at("lm_head.weight");
    const int64_t outputs = rows.original.tensor.size(0);
    const UpperBound scale = w_.has("final_scale") ? w_.norms().largest_entry(w_.at("final_scale").original)
                                                   : UpperBound(std::abs(o_.final_scale));
    const UpperBound unit = scale * root_of_ratio(o_.hidden_size, outputs);
    const Pair logits{.apart =
                          unit * (w_.norm(rows.original) * x.apart + w_.norm(rows.difference) * x.changed)};
    record("lm_head", logits);
    result_.deviation = StatedBound::of(logits.apart);
    result_.largest_logit =
        StatedBound::of(scale * static_cast<double>(o_.hidden_size) *
                        (w_.row_rms(rows.original) * x.apart + w_.row_rms(rows.difference) * x.changed));
  }

  const TransformerOptions& o_;
  Apart& w_;
  Activation activation_;
  DeviationBound result_;
};

// An allow-list: a new option does not compile until it is known here what it does to the difference of two models.
DeviationBound walk(const TransformerOptions& o, Apart& apart) {
  [[maybe_unused]] const auto& [vocab_size, real_vocab_size, hidden_size, num_hidden_layers, mixing,
                                memory_channels, content_heads, content_size, num_attention_heads,
                                num_key_value_heads, intermediate_size, max_position_embeddings, positions,
                                rope_theta, rope_half_truncated, activation, activation_divisor, gated,
                                softmax_scale, attention_output_scale, residual, attention_alpha, mlp_alpha,
                                learned_alpha, position_bias, position_bias_offsets, position_bias_start,
                                position_bias_dilation, qk_norm, qk_norm_epsilon, value_norm,
                                attention_window, window_block, long_window_layers, document_token,
                                logit_bias, norm, norm_epsilon, norm_gain, norm_after, learnable_scales, bias,
                                tie_embeddings, dropout, branch_dropout, drop_path, logit_soft_cap,
                                initialization, final_scale] = o;
  if (content_heads > 0)
    throw InputError("deviation",
                     fmt::format("content_heads must be 0: no bound of the distance is known for them, "
                                 "got {}",
                                 content_heads));
  if (residual == ResidualKind::quadrature)
    throw InputError("deviation",
                     "residual must be convex or plain: no bound of the distance is known for quadrature");
  return TransformerWalk(o, apart).walk();
}

DeviationBound walk(const MlpOptions& o, Apart& apart) {
  [[maybe_unused]] const auto& [hidden_sizes, layer_sizes, activation, bias, input_bound, initialization,
                                final_scale] = o;
  const Activation f(activation, 1.0);
  DeviationBound result{.domain_radius = input_bound};
  Pair x{input_bound, input_bound, 0.0};
  const size_t last = layer_sizes.size() - 2;
  for (size_t i = 0; i < last; ++i) {
    const std::string name = fmt::format("model.layers.{}", i);
    x = activated(f, apart.linear(x, name), layer_sizes[i + 1]);
    result.layers.push_back({name, StatedBound::of(x.apart)});
  }
  const std::string name = fmt::format("model.layers.{}", last);
  const Weight& rows = apart.at(name + ".weight");
  result.deviation = StatedBound::of(apart.linear(x, name, final_scale).apart);
  result.layers.push_back({name, result.deviation});
  const UpperBound unit =
      UpperBound(std::abs(final_scale)) * static_cast<double>(rows.original.tensor.size(1));
  result.largest_logit = StatedBound::of(
      unit * (apart.row_rms(rows.original) * x.apart + apart.row_rms(rows.difference) * x.changed));
  return result;
}

void refuse_other_options(ModelOptions first, ModelOptions second) {
  const Settings a = model_settings(first), b = model_settings(second);
  bool same = a.size() == b.size();
  for (size_t i = 0; same && i < a.size(); ++i)
    same = a[i].key == b[i].key && value_text(a[i]) == value_text(b[i]);
  if (!same) throw InputError("deviation", "both models must have the same options");
}

}  // namespace

DeviationBound deviation_bound(const Model& original, const Model& changed) {
  const at::NoGradGuard no_gradients;
  const std::optional<ModelOptions> options = original.options();
  if (!options || !changed.options())
    throw InputError("deviation", "both models must be described by options");
  refuse_other_options(*options, *changed.options());
  Apart apart(original, changed);
  DeviationBound result = std::visit([&](const auto& own) { return walk(own, apart); }, *options);
  if (std::isinf(result.deviation.log10) && result.deviation.log10 > 0.0)
    throw PromiseError("deviation",
                       "the models' distance has no finite bound: a norm with ε = 0 stretches without limit");
  return result;
}

}  // namespace bridle
