// See exact_forward.h.
#include "exact_forward.h"

#include <fmt/format.h>

#include <algorithm>

namespace bridle::test {
namespace {

class Weights {
 public:
  explicit Weights(const Model& model) {
    for (const Param& param : model.params()) {
      const at::Tensor values = param.tensor.detach();
      rows_[param.name] = real_rows(values.dim() == 2 ? values : values.view({1, -1}));
    }
  }
  const RealRows& at(const std::string& name) const { return rows_.at(name); }
  const RealVector& vector(const std::string& name) const { return rows_.at(name).front(); }
  bool has(const std::string& name) const { return rows_.contains(name); }

  RealVector product(const std::string& name, const RealVector& x) const {
    RealVector y;
    for (const RealVector& row : at(name + ".weight")) {
      Real sum;
      for (size_t i = 0; i < x.size(); ++i) sum += row[i] * x[i];
      y.push_back(sum);
    }
    return y;
  }

  RealVector linear(const std::string& name, const RealVector& x) const {
    RealVector y = product(name, x);
    if (has(name + ".bias"))
      for (size_t i = 0; i < y.size(); ++i) y[i] += vector(name + ".bias")[i];
    return y;
  }

 private:
  std::map<std::string, RealRows> rows_;
};

Real gelu_tanh(const Real& x) {
  const Real inner = sqrt(Real(2.0) / Real::pi()) * (x + Real(44715.0) / Real(1e6) * x * x * x);
  return Real(0.5) * x * (Real(1.0) + tanh(inner));
}

void activate(ActivationKind kind, RealVector& x) {
  switch (kind) {
    case ActivationKind::relu:
      for (Real& value : x) value = max(value, Real(0.0));
      return;
    case ActivationKind::gelu:
      for (Real& value : x) value = Real(0.5) * value * (Real(1.0) + erf(value / sqrt(Real(2.0))));
      return;
    case ActivationKind::gelu_tanh:
      for (Real& value : x) value = gelu_tanh(value);
      return;
    case ActivationKind::maxmin:
      for (size_t i = 0; i + 1 < x.size(); i += 2)
        if (x[i] < x[i + 1]) std::swap(x[i], x[i + 1]);
      return;
    case ActivationKind::abs:
      for (Real& value : x) value = max(value, Real(0.0) - value);
      return;
    case ActivationKind::relu_squared:
      for (Real& value : x) value = max(value, Real(0.0)) * max(value, Real(0.0));
      return;
    case ActivationKind::tanh:
      for (Real& value : x) value = tanh(value);
      return;
    case ActivationKind::silu:
      for (Real& value : x) value = value / (Real(1.0) + exp(Real(0.0) - value));
      return;
  }
}

RealVector normalised(const TransformerOptions& o, const Weights& w, const std::string& name, RealVector x) {
  if (o.norm == NormLayer::none) return x;
  if (o.norm == NormLayer::tanh) {
    for (Real& value : x) value = tanh(value);
    return x;
  }
  const Real d(static_cast<double>(x.size()));
  if (o.norm == NormLayer::layer_norm || o.norm == NormLayer::center_norm) {
    Real mean;
    for (const Real& value : x) mean += value / d;
    for (Real& value : x) value = value - mean;
  }
  const Real size =
      o.norm == NormLayer::center_norm ? (d - Real(1.0)) / d : sqrt(rms(x) * rms(x) + Real(o.norm_epsilon));
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] = x[i] / size;
    if (w.has(name + ".weight")) x[i] = x[i] * w.vector(name + ".weight")[i];
    if (w.has(name + ".bias")) x[i] += w.vector(name + ".bias")[i];
  }
  return x;
}

void rotate(const TransformerOptions& o, RealVector& x, size_t position) {
  const auto size = static_cast<size_t>(o.hidden_size / o.num_attention_heads), half = size / 2;
  for (size_t start = 0; start < x.size(); start += size) {
    for (size_t i = 0; i < half; ++i) {
      if (o.rope_half_truncated && 2 * i >= half) continue;
      const double last = static_cast<double>(half) / 2.0 - 1.0;
      const Real power = o.rope_half_truncated
                             ? Real(-static_cast<double>(i)) / Real(last)
                             : Real(-2.0 * static_cast<double>(i)) / Real(static_cast<double>(size));
      const Real angle = Real(static_cast<double>(position)) * pow(Real(o.rope_theta), power);
      const Real first = x[start + i], second = x[start + i + half];
      x[start + i] = first * cos(angle) - second * sin(angle);
      x[start + i + half] = second * cos(angle) + first * sin(angle);
    }
  }
}

// Every head divided by its RMS.
void normalise_heads(const TransformerOptions& o, RealVector& x) {
  const auto size = static_cast<size_t>(o.hidden_size / o.num_attention_heads);
  for (size_t start = 0; start < x.size(); start += size) {
    const RealVector head(x.begin() + static_cast<int64_t>(start),
                          x.begin() + static_cast<int64_t>(start + size));
    const Real length = sqrt(rms(head) * rms(head) + Real(o.qk_norm_epsilon));
    for (size_t i = start; i < start + size; ++i) x[i] = x[i] / length;
  }
}

// The first token that a token of a layer sees, without documents.
size_t first_seen(const TransformerOptions& o, int64_t layer, size_t token) {
  const auto block = static_cast<size_t>(o.window_block);
  size_t blocks = static_cast<size_t>(o.attention_window) / block;
  if (blocks == 0) return 0;
  const std::vector<int64_t>& whole = o.long_window_layers;
  if (!whole.empty() && std::count(whole.begin(), whole.end(), layer) == 0)
    blocks = std::max<size_t>(1, blocks / 2);
  const size_t own = token / block;
  return own < blocks ? 0 : (own + 1 - blocks) * block;
}

// One head of one token: softmax over the tokens so far that it sees. It reads the keys and values of the head that serves it.
void attend_head(const TransformerOptions& o, const Weights& w, const std::string& name, const RealRows& q,
                 const RealRows& k, const RealRows& v, size_t token, size_t begin, size_t head,
                 RealVector& out) {
  const auto heads = static_cast<size_t>(o.num_attention_heads);
  const auto groups = static_cast<size_t>(o.num_key_value_heads);
  const size_t size = out.size() / heads, start = head * size, read = head / (heads / groups) * size;
  RealVector logits;
  for (size_t j = begin; j <= token; ++j) {
    Real logit;
    for (size_t i = 0; i < size; ++i) logit += q[token][start + i] * k[j][read + i];
    logit = logit * Real(o.softmax_scale) / Real(static_cast<double>(size));
    if (o.position_bias) {
      const RealVector& bias = w.at(name + ".position_bias")[head];
      logit += bias[std::min(token - j, bias.size() - 1)];
    }
    logits.push_back(logit);
  }
  Real most = logits.front(), sum;
  for (const Real& logit : logits) most = max(most, logit);
  for (Real& logit : logits) sum += logit = exp(logit - most);
  for (size_t j = begin; j <= token; ++j)
    for (size_t i = 0; i < size; ++i) out[start + i] += logits[j - begin] / sum * v[j][read + i];
}

RealRows attention(const TransformerOptions& o, const Weights& w, const std::string& name, int64_t layer,
                   const RealRows& x) {
  RealRows q, k, v, y;
  for (size_t t = 0; t < x.size(); ++t) {
    q.push_back(w.linear(name + ".q_proj", x[t]));
    k.push_back(w.linear(name + ".k_proj", x[t]));
    v.push_back(w.linear(name + ".v_proj", x[t]));
    if (o.qk_norm) {
      normalise_heads(o, q.back());
      normalise_heads(o, k.back());
    }
    if (o.value_norm) normalise_heads(o, v.back());
    if (o.positions != PositionKind::rope) continue;
    rotate(o, q.back(), t);
    rotate(o, k.back(), t);
  }
  const Real scale =
      o.learnable_scales ? w.vector(name + ".output_scale").front() : Real(o.attention_output_scale);
  for (size_t t = 0; t < x.size(); ++t) {
    RealVector heads(x[t].size());
    for (size_t h = 0; h < static_cast<size_t>(o.num_attention_heads); ++h)
      attend_head(o, w, name, q, k, v, t, first_seen(o, layer, t), h, heads);
    for (Real& value : heads) value = value * scale;
    y.push_back(w.linear(name + ".o_proj", heads));
  }
  return y;
}

// One content head of one token: softmax over the tokens so far that it sees, which it reads whole, times c/ℓ(r).
void add_content(const TransformerOptions& o, const Weights& w, const std::string& name, size_t begin,
                 size_t token, size_t head, const RealRows& x, RealVector& z) {
  const auto size = static_cast<size_t>(o.content_size);
  const auto product = [&](const std::string& part, size_t row, size_t t) {
    const RealVector& weights = w.at(name + ".content_" + part + "_proj.weight")[head * size + row];
    Real sum;
    for (size_t i = 0; i < weights.size(); ++i) sum += weights[i] * x[t][i];
    return sum;
  };
  const Real range = exp(w.vector(name + ".content_log_range")[head]);
  const RealVector& bias = w.at(name + ".content_position_bias")[head];
  RealVector query, logits;
  for (size_t row = 0; row < size; ++row) query.push_back(product("q", row, token));
  for (size_t j = begin; j <= token; ++j) {
    Real logit;
    for (size_t row = 0; row < size; ++row) logit += query[row] * product("k", row, j);
    logits.push_back(logit * range / Real(static_cast<double>(size)) +
                     bias[std::min(token - j, bias.size() - 1)]);
  }
  Real most = logits.front(), sum;
  for (const Real& logit : logits) most = max(most, logit);
  for (Real& logit : logits) sum += logit = exp(logit - most);
  const auto place = 1 + static_cast<size_t>(o.num_attention_heads) + head;
  const Real gain = w.vector(name + ".coefficients")[place] / (range + sqrt(Real(1.0) + range * range)) / sum;
  RealVector mean(x[token].size());
  for (size_t j = begin; j <= token; ++j)
    for (size_t i = 0; i < mean.size(); ++i) mean[i] += logits[j - begin] * x[j][i];
  for (const Real& value : mean) z.push_back(gain * value);
}

// Quadrature mixing: heads by position and by content, the decaying maximum, and the skip, through one matrix.
RealRows mixing(const TransformerOptions& o, const Weights& w, const std::string& name, int64_t layer,
                const RealRows& x) {
  const RealVector& c = w.vector(name + ".coefficients");
  const auto heads = static_cast<size_t>(o.num_attention_heads);
  RealRows y;
  for (size_t t = 0; t < x.size(); ++t) {
    RealVector z;
    for (const Real& value : x[t]) z.push_back(c[0] * value);
    for (size_t h = 0; h < heads; ++h) {
      const RealVector& bias = w.at(name + ".position_bias")[h];
      RealVector mean(x[t].size());
      Real sum;
      for (size_t j = first_seen(o, layer, t); j <= t; ++j) {
        const Real weight = exp(bias[std::min(t - j, bias.size() - 1)]);
        sum += weight;
        for (size_t i = 0; i < mean.size(); ++i) mean[i] += weight * x[j][i];
      }
      for (const Real& value : mean) z.push_back(c[1 + h] * value / sum);
    }
    for (size_t h = 0; h < static_cast<size_t>(o.content_heads); ++h)
      add_content(o, w, name, first_seen(o, layer, t), t, h, x, z);
    for (size_t channel = 0; channel < static_cast<size_t>(o.memory_channels); ++channel) {
      const RealVector& u = w.at(name + ".memory_proj.weight")[channel];
      const Real decay = exp(w.vector(name + ".memory_log_decay")[channel]);
      const Real scale =
          sqrt(Real(static_cast<double>(o.memory_channels) * static_cast<double>(x[t].size())));
      Real most;
      for (size_t j = 0; j <= t; ++j) {
        Real value;
        for (size_t i = 0; i < u.size(); ++i) value += u[i] * x[j][i];
        value = value / scale - decay * Real(static_cast<double>(t - j));
        most = j == 0 ? value : max(most, value);
      }
      z.push_back(c.back() * most);
    }
    y.push_back(w.linear(name + ".out_proj", z));
  }
  return y;
}

// The skip and f, whose vectors are made as long as tokens, through one matrix.
RealVector quadrature_feed_forward(const TransformerOptions& o, const Weights& w, const std::string& name,
                                   const RealVector& x) {
  const RealVector& c = w.vector(name + ".coefficients");
  RealVector active = w.linear(name + ".up_proj", x), z;
  activate(o.activation, active);
  const Real longer =
      sqrt(Real(static_cast<double>(o.intermediate_size)) / Real(static_cast<double>(o.hidden_size)));
  for (const Real& value : x) z.push_back(c[0] * value);
  for (const Real& value : active) z.push_back(c[1] * value / (longer * Real(o.activation_divisor)));
  return w.linear(name + ".down_proj", z);
}

// α has one entry, or one for each of x.
RealVector mixed(const TransformerOptions& o, const RealVector& alpha, const RealVector& x,
                 const RealVector& branch) {
  RealVector y;
  for (size_t i = 0; i < x.size(); ++i) {
    const Real& own = alpha[alpha.size() == 1 ? 0 : i];
    y.push_back((o.residual == ResidualKind::convex ? Real(1.0) - own : Real(1.0)) * x[i] + own * branch[i]);
  }
  return y;
}

void record(ExactPass& pass, const std::string& name, const RealRows& rows) {
  for (const RealVector& row : rows) pass.largest_rms[name] = max(pass.largest_rms[name], rms(row));
}

void walk(const MlpOptions& o, const Weights& w, const RealRows& pixels, ExactPass& pass) {
  RealVector x = pixels.front();
  const size_t layers = o.layer_sizes.size() - 1;
  for (size_t i = 0; i < layers; ++i) {
    const std::string name = fmt::format("model.layers.{}", i);
    if (i + 1 == layers) {  // the scale is that of the product alone
      const RealVector before = x;
      x = w.product(name, before);
      for (size_t k = 0; k < x.size(); ++k) {
        x[k] = x[k] * Real(o.final_scale);
        if (o.bias) x[k] += w.vector(name + ".bias")[k];
      }
      break;
    }
    x = w.linear(name, x);
    activate(o.activation, x);
    record(pass, name, {x});
  }
  pass.logits = {x};
}

void walk(const TransformerOptions& o, const Weights& w, RealRows x, ExactPass& pass) {
  const auto before = [&](const std::string& name, const RealVector& y) {
    return o.norm_after ? y : normalised(o, w, name, y);
  };
  const auto after = [&](const std::string& name, const RealVector& y) {
    return o.norm_after ? normalised(o, w, name, y) : y;
  };
  if (o.positions == PositionKind::learned)
    for (size_t t = 0; t < x.size(); ++t)
      for (size_t i = 0; i < x[t].size(); ++i) x[t][i] += w.at("model.embed_positions.weight")[t][i];
  record(pass, "model.embed_tokens", x);
  for (int64_t layer = 0; layer < o.num_hidden_layers; ++layer) {
    const std::string name = fmt::format("model.layers.{}", layer);
    const auto alpha = [&](const char* branch, double fixed) {
      if (o.learned_alpha != LearnedAlpha::none) return w.vector(name + branch);
      return RealVector{Real(o.residual == ResidualKind::convex ? fixed : 1.0)};
    };
    if (o.mixing == MixingKind::quadrature) {
      x = mixing(o, w, name + ".mixing", layer, x);
      record(pass, name + ".mixing", x);
    } else {
      RealRows inner;
      for (const RealVector& row : x) inner.push_back(before(name + ".input_layernorm", row));
      const RealRows attended = attention(o, w, name + ".self_attn", layer, inner);
      for (size_t t = 0; t < x.size(); ++t)
        x[t] = after(name + ".input_layernorm",
                     mixed(o, alpha(".attention_alpha", o.attention_alpha), x[t], attended[t]));
      record(pass, name + ".self_attn", x);
    }
    for (RealVector& row : x) {
      if (o.residual == ResidualKind::quadrature) {
        row = quadrature_feed_forward(o, w, name + ".mlp", row);
        continue;
      }
      const RealVector fed = before(name + ".post_attention_layernorm", row);
      RealVector active = w.linear(name + (o.gated ? ".mlp.gate_proj" : ".mlp.up_proj"), fed);
      activate(o.activation, active);
      for (Real& value : active) value = value / Real(o.activation_divisor);
      if (o.gated) {
        const RealVector up = w.linear(name + ".mlp.up_proj", fed);
        for (size_t i = 0; i < active.size(); ++i) active[i] = active[i] * up[i];
      }
      row = after(name + ".post_attention_layernorm",
                  mixed(o, alpha(".mlp_alpha", o.mlp_alpha), row, w.linear(name + ".mlp.down_proj", active)));
    }
    record(pass, name + ".mlp", x);
  }
  const Real scale = o.learnable_scales ? w.vector("final_scale").front() : Real(o.final_scale);
  const std::string head = o.tie_embeddings ? "model.embed_tokens" : "lm_head";
  for (const RealVector& row : x) {
    RealVector logits = w.linear(head, before("model.norm", row));
    logits.resize(static_cast<size_t>(o.real_vocab_size));
    for (size_t i = 0; i < logits.size(); ++i) {
      logits[i] = logits[i] * scale;
      if (o.logit_bias) logits[i] += w.vector("logit_bias")[i];
      const Real cap(o.logit_soft_cap);
      if (o.logit_soft_cap != 0.0) logits[i] = cap * tanh(logits[i] / cap);
    }
    pass.logits.push_back(logits);
  }
}

}  // namespace

RealRows real_rows(const at::Tensor& values) {
  const at::Tensor wide = values.detach().to(at::kDouble).contiguous();
  RealRows rows(static_cast<size_t>(wide.size(0)));
  for (int64_t i = 0; i < wide.size(0); ++i)
    for (int64_t j = 0; j < wide.size(1); ++j)
      rows[static_cast<size_t>(i)].emplace_back(wide[i][j].item<double>());
  return rows;
}

ExactPass exact_forward(const Model& model, const RealRows& embedded) {
  ExactPass pass;
  const Weights weights(model);
  std::visit([&](const auto& options) { walk(options, weights, embedded, pass); }, model.options().value());
  return pass;
}

Real rms(const RealVector& x) {
  Real sum;
  for (const Real& value : x) sum += value * value;
  return sqrt(sum / Real(static_cast<double>(x.size())));
}

RealVector operator-(const RealVector& a, const RealVector& b) {
  RealVector difference;
  for (size_t i = 0; i < a.size(); ++i) difference.push_back(a[i] - b[i]);
  return difference;
}

}  // namespace bridle::test
