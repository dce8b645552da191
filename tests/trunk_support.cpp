// See trunk_support.h.
#include "trunk_support.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/linalg_qr.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "dice.h"
#include "nn_support.h"
#include "support.h"

namespace bridle::test {
namespace {

constexpr int64_t kSize = 32;       // of a token
constexpr double kOneToken = 60.0;  // a logit that leaves nothing to other offsets
constexpr double kNoDecay = -30.0;  // ρ of a channel that forgets nothing

TransformerOptions random_shape(Dice& dice) {
  return {.vocab_size = kSize,
          .hidden_size = kSize,
          .num_hidden_layers = 1 + dice.below(3),
          .mixing = MixingKind::quadrature,
          .memory_channels = dice.one_of<int64_t>({0, 32, 64}),
          .num_attention_heads = 1 + dice.below(4),
          .intermediate_size = 2 * (4 + dice.below(20)),
          .max_position_embeddings = kSize,
          .positions = PositionKind::none,
          .activation = dice.one_of({ActivationKind::abs, ActivationKind::maxmin, ActivationKind::relu}),
          .activation_divisor = 1.0,
          .mlp_alpha = dice.between(0.0, 1.0),
          .learned_alpha = dice.one_of({LearnedAlpha::none, LearnedAlpha::scalar}),
          .attention_window = dice.one_of<int64_t>({0, 0, 3})};
}

// In a third of the networks the skip is a part of the feed-forward layer's last matrix.
TransformerOptions random_trunk_shape(Dice& dice) {
  TransformerOptions options = random_shape(dice);
  if (dice.below(3) != 0) return options;
  options.residual = ResidualKind::quadrature;
  options.learned_alpha = LearnedAlpha::none;
  return options;
}

// Of a feed-forward layer, which comes after the mixture of its block.
at::Tensor last_weight(const Model& model, Role role, int64_t layer = 0) {
  at::Tensor last;
  for (const Param& param : model.params())
    if (param.role == role && param.name.starts_with(fmt::format("model.layers.{}.", layer)))
      last = param.tensor.detach();
  return last;
}

at::Tensor weight(const Model& model, Role role, int64_t layer = 0) {
  for (const Param& param : model.params())
    if (param.role == role && param.name.starts_with(fmt::format("model.layers.{}.", layer)))
      return param.tensor.detach();
  return {};
}

at::Tensor head_weight(const Model& model) {
  for (const Param& param : model.params())
    if (param.role == Role::head) return param.tensor.detach();
  return {};
}

at::Tensor named(const Model& model, const std::string& name) {
  for (const Param& param : model.params())
    if (param.name == name) return param.tensor.detach();
  return {};
}

std::unique_ptr<Model> random_trunk(bool trained, Dice& dice) {
  TransformerOptions options = random_trunk_shape(dice);
  options.content_heads = dice.below(3);
  options.content_size = dice.one_of<int64_t>({32, 64});
  auto model = make_model(options, 1);
  const at::NoGradGuard no_gradients;
  for (const Param& param : model->params()) {
    if (is_matrix(param.role)) param.tensor.copy_(random_weight(param, trained, dice));
    if (param.role == Role::position_bias)
      param.tensor.copy_(normal(param.tensor.sizes(), dice.seed()).mul(3.0));
    if (param.role == Role::mixing_weight)
      param.tensor.copy_(normal(param.tensor.sizes(), dice.seed()).mul(dice.between(0.3, 1.0)));
    if (param.role == Role::content_range)
      param.tensor.copy_(normal(param.tensor.sizes(), dice.seed()).mul(1.5));
    if (param.role == Role::memory) param.tensor.mul_(dice.between(0.5, 2.0));
    if (param.role == Role::memory_decay)
      param.tensor.copy_(normal(param.tensor.sizes(), dice.seed()).mul(3.0));
  }
  return model;
}

// One block whose feed-forward branch is shut, and a head that loses nothing.
std::unique_ptr<Model> built_trunk(TransformerOptions options) {
  options.num_hidden_layers = 1;
  options.mlp_alpha = 1e-3;
  options.learned_alpha = LearnedAlpha::none;
  options.attention_window = 0;
  auto model = make_model(options, std::nullopt);
  const at::NoGradGuard no_gradients;
  head_weight(*model).fill_diagonal_(1.0);
  return model;
}

at::Tensor rotation(Dice& dice) { return std::get<0>(at::linalg_qr(normal({kSize, kSize}, dice.seed()))); }

// Every head reads the token itself and every block of M is the same rotation: all of them add up.
std::unique_ptr<Model> aligned(Dice& dice) {
  TransformerOptions options = random_shape(dice);
  options.memory_channels = 0;
  auto model = built_trunk(options);
  weight(*model, Role::position_bias).select(1, 0).fill_(kOneToken);
  const int64_t branches = 1 + options.num_attention_heads;
  weight(*model, Role::mixing_weight).fill_(dice.between(0.3, 1.5));
  weight(*model, Role::mixing_output).copy_(rotation(dice).repeat({1, branches}));
  return model;
}

// Head h reads the token h + 1 back, and branch b writes coordinates b, b + (1 + H), … of its own.
std::unique_ptr<Model> different_tokens(Dice& dice) {
  TransformerOptions options = random_shape(dice);
  options.memory_channels = 0;
  auto model = built_trunk(options);
  const at::Tensor turn = rotation(dice), m = weight(*model, Role::mixing_output);
  const int64_t branches = 1 + options.num_attention_heads;
  weight(*model, Role::mixing_weight).copy_(normal({branches}, dice.seed()).abs().add(0.3));
  for (int64_t h = 0; h < options.num_attention_heads; ++h)
    weight(*model, Role::position_bias)[h][h + 1] = kOneToken;
  for (int64_t i = 0; i < kSize; ++i) m[i].narrow(0, i % branches * kSize, kSize).copy_(turn[i]);
  return model;
}

// Channel k reads coordinate k and forgets nothing: tokens that have one coordinate each hold the maxima of as many channels.
std::unique_ptr<Model> memory(Dice& dice) {
  TransformerOptions options = random_shape(dice);
  options.memory_channels = 32;
  auto model = built_trunk(options);
  const int64_t heads = options.num_attention_heads;
  weight(*model, Role::mixing_weight)[1 + heads] = dice.between(0.5, 2.0);
  weight(*model, Role::memory_decay).fill_(kNoDecay);
  const double row = dice.between(2.0, 6.0) * std::sqrt(static_cast<double>(kSize));
  const at::Tensor turn = rotation(dice);
  weight(*model, Role::memory).copy_(turn.mul(row));
  weight(*model, Role::mixing_output).narrow(1, (1 + heads) * kSize, 32).copy_(at::eye(kSize));
  return model;
}

// A block that passes on what it reads, and a feed-forward layer whose two parts are the same rotation.
std::unique_ptr<Model> feed_forward(Dice& dice) {
  TransformerOptions options = random_shape(dice);
  options.memory_channels = 0;
  options.residual = ResidualKind::quadrature;
  options.activation = ActivationKind::abs;
  options.intermediate_size = 2 * kSize;
  options.bias = true;
  auto model = built_trunk(options);
  weight(*model, Role::mixing_weight).zero_()[0] = 1.0;
  weight(*model, Role::mixing_output).narrow(1, 0, kSize).copy_(at::eye(kSize));
  const at::Tensor turn = rotation(dice), m = last_weight(*model, Role::mixing_output);
  const double skip = dice.between(0.3, 1.5), length = dice.between(1.0, 4.0);
  weight(*model, Role::bias).fill_(1e3);  // every entry stays positive
  for (int64_t copy = 0; copy < 2; ++copy) {
    weight(*model, Role::mlp_up).narrow(0, copy * kSize, kSize).copy_(at::eye(kSize).mul(length));
    m.narrow(1, (1 + copy) * kSize, kSize).copy_(turn.mul(std::sqrt(0.5)));
  }
  m.narrow(1, 0, kSize).copy_(turn);
  last_weight(*model, Role::mixing_weight)[0] = skip;
  last_weight(*model, Role::mixing_weight)[1] = skip * length;
  return model;
}

// One content head, which reads others only, by queries and keys that are the token itself, `norm` times as long.
std::unique_ptr<Model> content(Dice& dice) {
  TransformerOptions options = random_shape(dice);
  options.memory_channels = 0;
  options.content_heads = 1 + dice.below(2);
  auto model = built_trunk(options);
  const std::string mixing = "model.layers.0.mixing.";
  const int64_t read = 1 + options.num_attention_heads + dice.below(options.content_heads);
  const at::Tensor turn = rotation(dice);
  weight(*model, Role::mixing_weight)[read] = dice.between(0.5, 1.5);
  weight(*model, Role::content_range).fill_(dice.between(-0.5, 1.0));
  named(*model, mixing + "content_position_bias").select(1, 0).fill_(-kOneToken);
  const at::Tensor both = turn.repeat({options.content_heads, 1});
  weight(*model, Role::content_query).copy_(both.mul(dice.between(1.0, 2.0)));
  weight(*model, Role::content_key).copy_(both.mul(dice.between(1.3, 2.0)));
  weight(*model, Role::mixing_output).narrow(1, read * kSize, kSize).copy_(rotation(dice));
  return model;
}

std::unique_ptr<Model> of_kind(const std::string& kind, Dice& dice) {
  const at::NoGradGuard no_gradients;
  if (kind == "aligned") return aligned(dice);
  if (kind == "different_tokens") return different_tokens(dice);
  if (kind == "memory") return memory(dice);
  if (kind == "feed_forward") return feed_forward(dice);
  if (kind == "content") return content(dice);
  return random_trunk(kind == "trained_like", dice);
}

double largest_block(const at::Tensor& m, int64_t branches) {
  double largest = 0.0;
  for (int64_t b = 0; b < branches; ++b)
    largest = std::max(largest, spectral_norm(m.narrow(1, b * kSize, kSize)));
  return largest;
}

// ‖Q_k‖‖K_k‖a², the largest, or 1.
double content_stretch(const Model& model, int64_t layer, double activation, TrunkMistake mistake) {
  const TransformerOptions options = transformer_options(model);
  const at::Tensor q = weight(model, Role::content_query, layer), k = weight(model, Role::content_key, layer);
  if (!q.defined() || mistake == TrunkMistake::free_content) return 1.0;
  const double unit = static_cast<double>(kSize) / static_cast<double>(options.content_size);
  const double power = mistake == TrunkMistake::short_tokens ? 1.0 : 2.0;
  double largest = 1.0;
  for (int64_t h = 0; h < options.content_heads; ++h) {
    const auto norm = [&](const at::Tensor& w) {
      return spectral_norm(w.narrow(0, h * options.content_size, options.content_size));
    };
    const double keys = mistake == TrunkMistake::free_keys ? 1.0 / std::sqrt(unit) : norm(k);
    largest = std::max(largest, norm(q) * keys * unit * std::pow(activation, power));
  }
  return largest;
}

// Of the parts that the activation grows by, and of those that only a change does.
struct Gains {
  double activation, content;
};

Gains mixing_gains(const Model& model, int64_t layer, double activation, TrunkMistake mistake) {
  const TransformerOptions options = transformer_options(model);
  const at::Tensor m = weight(model, Role::mixing_output, layer), u = weight(model, Role::memory, layer);
  const at::Tensor c = weight(model, Role::mixing_weight, layer).to(at::kDouble);
  double matrix = spectral_norm(m);
  if (mistake == TrunkMistake::block_norms)
    matrix = largest_block(m, 1 + options.num_attention_heads + options.content_heads);
  double mixture = c.norm().item<double>();
  if (mistake == TrunkMistake::no_coefficients) mixture = 1.0;
  if (mistake == TrunkMistake::largest_weight) mixture = c.abs().max().item<double>();
  const double content = content_stretch(model, layer, activation, mistake);
  if (!u.defined()) return {matrix * mixture, content};
  double rows = u.to(at::kDouble).square().mean(1).max().sqrt().item<double>();
  const auto unit = std::sqrt(static_cast<double>(u.size(0)) * static_cast<double>(kSize));
  if (mistake == TrunkMistake::spectral_memory) rows = spectral_norm(u) / unit;
  if (mistake == TrunkMistake::no_memory) rows = 1.0;
  rows = std::max(1.0, rows);
  return {matrix * mixture * rows, std::max(1.0, content / rows)};
}

double feed_forward_stretch(const Model& model, int64_t layer, TrunkMistake mistake) {
  const TransformerOptions options = transformer_options(model);
  if (options.residual != ResidualKind::quadrature) {
    const at::Tensor learned = weight(model, Role::residual_weight, layer);
    const double alpha = learned.defined() ? learned.item<double>() : options.mlp_alpha;
    const double branch = spectral_norm(weight(model, Role::mlp_up, layer)) *
                          spectral_norm(weight(model, Role::mlp_down, layer));
    return std::abs(1.0 - alpha) + std::abs(alpha) * branch;
  }
  const at::Tensor m = last_weight(model, Role::mixing_output, layer),
                   up = weight(model, Role::mlp_up, layer);
  const at::Tensor c = last_weight(model, Role::mixing_weight, layer).to(at::kDouble);
  double matrix = spectral_norm(m);
  if (mistake == TrunkMistake::feed_forward_blocks)
    matrix = std::max(spectral_norm(m.narrow(1, 0, kSize)), spectral_norm(m.narrow(1, kSize, up.size(0))));
  const double longer = std::sqrt(static_cast<double>(up.size(0)) / static_cast<double>(kSize));
  double branch = spectral_norm(up) / longer;
  if (mistake == TrunkMistake::feed_forward_length) branch /= longer;
  return matrix * c.norm().item<double>() * std::max(1.0, branch);
}

}  // namespace

Network trunk_network(int number) {
  constexpr const char* kinds[kTrunkKinds] = {"orthogonal", "trained_like", "aligned", "different_tokens",
                                              "memory",     "feed_forward", "content"};
  Dice dice(number);
  Network result{.kind = kinds[number % kTrunkKinds]};
  result.model = of_kind(result.kind, dice);
  result.domain = dice.one_of({1.0, dice.between(0.5, 2.0)});
  result.sequence_length = result.kind == "memory" ? kSize : 3 + dice.below(4);
  return result;
}

double twin_bound(const Network& network, TrunkMistake mistake) {
  const Model& model = *network.model;
  const TransformerOptions options = transformer_options(model);
  double lipschitz = spectral_norm(head_weight(model));  // square: units do not matter
  double activation = network.domain;
  for (int64_t layer = 0; layer < options.num_hidden_layers; ++layer) {
    const Gains gains = mixing_gains(model, layer, activation, mistake);
    const double grown = gains.activation * feed_forward_stretch(model, layer, mistake);
    activation *= grown;
    lipschitz *= grown * gains.content;
  }
  return lipschitz;
}

}  // namespace bridle::test
