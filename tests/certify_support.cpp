// See certify_support.h.
#include "certify_support.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/linalg_qr.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/pow.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "bridle/certify.h"
#include "certify/fact_norms.h"
#include "dice.h"
#include "nn_support.h"
#include "support.h"

namespace bridle::test {

at::Tensor random_weight(const Param& param, bool trained, Dice& dice) {
  const int64_t rows = param.tensor.size(0);
  const int64_t columns = param.tensor.size(1);
  const int64_t rank = std::min(rows, columns);
  at::Tensor spectrum = at::ones({rank}, at::kDouble);
  if (trained) {
    const double decay = dice.between(0.5, 1.0);
    spectrum = at::pow(decay, at::arange(rank, at::kDouble)).mul(dice.between(0.5, 2.0));
    spectrum[0].mul_(dice.between(1.0, 3.0));
  }
  const double unit = std::sqrt(static_cast<double>(rows) / static_cast<double>(columns));
  return matrix_with_spectrum(spectrum, rows, columns, dice.seed()).mul(unit);
}

namespace {

TransformerOptions random_shape(Dice& dice) {
  const int64_t heads = dice.one_of<int64_t>({1, 2, 3, 4, 6, 8});
  const int64_t head_size = heads == 1   ? dice.one_of<int64_t>({8, 16, 32})
                            : heads <= 3 ? dice.one_of<int64_t>({4, 8})
                                         : dice.one_of<int64_t>({2, 4});
  return {.vocab_size = 5 + dice.below(20),
          .hidden_size = heads * head_size,
          .num_hidden_layers = 1 + dice.below(4),
          .num_attention_heads = heads,
          .intermediate_size = 8 + dice.below(40),
          .max_position_embeddings = 8,
          .positions = PositionKind::none,
          .activation = dice.one_of({ActivationKind::gelu, ActivationKind::gelu_tanh, ActivationKind::relu}),
          .softmax_scale = dice.between_logs(0.1, 24.0),
          .attention_output_scale = dice.one_of({1.0 / 3.0, 1.0}),
          .attention_alpha = dice.between(0.1, 1.0),
          .mlp_alpha = dice.between(0.1, 1.0)};
}

std::unique_ptr<Model> random_network(TransformerOptions options, bool trained, Dice& dice) {
  const bool even = options.hidden_size / options.num_attention_heads % 2 == 0;
  options.positions = dice.one_of(
      {even ? PositionKind::rope : PositionKind::none, PositionKind::none, PositionKind::learned});
  options.position_bias = options.logit_bias = dice.below(3) == 0;
  options.final_scale = dice.one_of({1.0, -1.5});
  auto model = make_model(options, 1);
  const at::NoGradGuard no_gradients;
  for (const Param& param : model->params()) {
    if (is_matrix(param.role)) param.tensor.copy_(random_weight(param, trained, dice));
    if (param.role == Role::position_bias)
      param.tensor.copy_(normal(param.tensor.sizes(), dice.seed()).mul(3.0));
    if (param.role == Role::logit_bias) param.tensor.copy_(normal(param.tensor.sizes(), 7).mul(5.0));
    if (param.role == Role::position_embedding) param.tensor.mul_(dice.between(0.0, 0.5));
  }
  return model;
}

// Weights by hand, in coordinates that are turned at random: zero but for what is set. A layer whose weights are zero
// multiplies everything by 1 − α, in truth as in the bound.
class Built {
 public:
  Built(const TransformerOptions& options, Dice& dice)
      : model(make_model(options, std::nullopt)),
        turn_(std::get<0>(at::linalg_qr(normal({options.hidden_size, options.hidden_size}, dice.seed())))),
        head_size_(options.hidden_size / options.num_attention_heads) {
    const at::NoGradGuard no_gradients;
    for (const Param& param : model->params())
      if (param.role == Role::head) param.tensor.fill_diagonal_(1.0);
  }

  at::Tensor weight(int64_t layer, Role role) const {
    for (const Param& param : model->params())
      if (param.role == role && param.name.starts_with(fmt::format("model.layers.{}.", layer)))
        return param.tensor.detach();
    return {};
  }

  // Row `row` reads coordinate `coordinate` of the turned input; column `column` writes it.
  void read_(int64_t layer, Role role, int64_t row, int64_t coordinate, double size) const {
    weight(layer, role)[row].add_(turn_[coordinate].mul(size));
  }
  void write_(int64_t layer, Role role, int64_t column, int64_t coordinate, double size) const {
    weight(layer, role).select(1, column).add_(turn_[coordinate].mul(size));
  }

  // Two tokens ±e in coordinate 0 are told apart by `head`: their keys are opposite, and so are their values. Moving
  // them along coordinate 1 changes keys along the query and the query along the keys, so all parts add up.
  void tell_apart_(int64_t layer, int64_t head, double content, double gain) const {
    const int64_t row = head * head_size_;
    read_(layer, Role::query, row, 0, content);
    read_(layer, Role::query, row + 1, 1, content);
    read_(layer, Role::key, row, 1, content);
    read_(layer, Role::key, row + 1, 0, content);
    read_(layer, Role::value, row, 0, 1.0);
    write_(layer, Role::attention_output, row, 1, gain);
  }

  std::unique_ptr<Model> model;

 private:
  at::Tensor turn_;  // rows are the coordinates
  int64_t head_size_;
};

TransformerOptions built_shape(Dice& dice, int64_t heads) {
  TransformerOptions options = random_shape(dice);
  options.num_attention_heads = heads;
  options.hidden_size = heads * dice.one_of<int64_t>({8 / heads > 2 ? 8 : 2, 4});
  options.vocab_size = options.hidden_size;  // the head is the identity: nothing is lost
  options.position_bias = true;
  return options;
}

// Layers that hand coordinates 0 and 1 on, `gain` times as large, and a last one that tells tokens apart by content. The
// MLPs are zero.
std::unique_ptr<Model> chain(TransformerOptions options, double gain, Dice& dice) {
  options.attention_alpha = 1.0;
  options.mlp_alpha = 0.1;
  Built built(options, dice);
  const double per_layer = gain / options.attention_output_scale / (1.0 - options.mlp_alpha);
  const int64_t last = options.num_hidden_layers - 1;
  for (int64_t layer = 0; layer < last; ++layer) {
    built.weight(layer, Role::position_bias).select(1, 0).fill_(60.0);  // every token reads itself
    for (const int64_t i : {0, 1}) {
      built.read_(layer, Role::value, i, i, 1.0);
      built.write_(layer, Role::attention_output, i, i, per_layer);
    }
  }
  built.tell_apart_(last, dice.below(options.num_attention_heads), dice.between(0.5, 1.0),
                    dice.between(0.5, 3.0));
  return std::move(built.model);
}

std::unique_ptr<Model> one_head(Dice& dice) {
  TransformerOptions options = built_shape(dice, dice.one_of<int64_t>({2, 4, 8}));
  options.softmax_scale = dice.between(0.5, 2.0);
  return chain(options, 1.0, dice);
}

std::unique_ptr<Model> growth(Dice& dice) {
  TransformerOptions options = built_shape(dice, dice.one_of<int64_t>({1, 2, 4}));
  options.num_hidden_layers = 2 + dice.below(3);
  options.softmax_scale = 1.0;
  return chain(options, dice.between(1.3, 2.0), dice);
}

std::unique_ptr<Model> content(Dice& dice) {
  TransformerOptions options = built_shape(dice, dice.one_of<int64_t>({1, 2, 4}));
  options.softmax_scale = dice.between(6.0, 24.0);
  return chain(options, 1.0, dice);
}

// Head h reads the token h back, and of it one coordinate of its own. Heads with large values have small outputs: only
// with the right scales of heads is the bound reached.
std::unique_ptr<Model> different_tokens(Dice& dice) {
  TransformerOptions options = built_shape(dice, dice.one_of<int64_t>({2, 4}));
  options.attention_alpha = options.num_hidden_layers == 1 ? 1.0 : 0.5;
  Built built(options, dice);
  for (int64_t h = 0; h < options.num_attention_heads; ++h) {
    const int64_t row = h * options.hidden_size / options.num_attention_heads;
    built.weight(0, Role::position_bias)[h][h].fill_(60.0);
    const double size = dice.between_logs(0.2, 5.0);
    built.read_(0, Role::value, row, h, size);
    built.write_(0, Role::attention_output, row, h, 3.0 / size);
  }
  return std::move(built.model);
}

// One neuron that reaches √2 inside the ball.
std::unique_ptr<Model> neuron(Dice& dice) {
  TransformerOptions options = built_shape(dice, dice.one_of<int64_t>({1, 2, 4}));
  options.activation = dice.one_of({ActivationKind::gelu, ActivationKind::gelu_tanh});
  options.attention_alpha = 0.1;
  options.mlp_alpha = options.num_hidden_layers == 1 ? 1.0 : 0.6;
  Built built(options, dice);
  built.read_(0, Role::mlp_up, 0, 0, dice.between(1.0, 2.0));
  built.write_(0, Role::mlp_down, 0, 0, dice.between(0.5, 2.0));
  return std::move(built.model);
}

std::unique_ptr<Model> of_kind(const std::string& kind, Dice& dice) {
  if (kind == "one_head") return one_head(dice);
  if (kind == "growth") return growth(dice);
  if (kind == "content") return content(dice);
  if (kind == "different_tokens") return different_tokens(dice);
  if (kind == "neuron") return neuron(dice);
  return random_network(random_shape(dice), kind == "trained_like", dice);
}

// ---- The twin

double sigma(const at::Tensor& matrix) { return spectral_norm(matrix.detach()); }

std::vector<double> head_norms(const at::Tensor& weight, int64_t heads) {
  std::vector<double> norms;
  for (const at::Tensor& rows : weight.chunk(heads, 0)) norms.push_back(sigma(rows));
  return norms;
}

double largest_row(const at::Tensor& table) {
  return table.detach().to(at::kDouble).square().mean(1).max().sqrt().item<double>();
}

struct Twin {
  const TransformerOptions& options;
  Mistake mistake;
  double initial;  // activation
  double a;
  double lipschitz = 1.0;

  void residual(double alpha, double gain, double stretch) {
    lipschitz *= std::abs(1.0 - alpha) + std::abs(alpha) * stretch;
    a *= std::abs(1.0 - alpha) + std::abs(alpha) * gain;
  }

  void attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& o,
                 const std::vector<double>& scales) {
    const double s = mistake == Mistake::no_softmax_scale ? 1.0 : std::abs(options.softmax_scale);
    const double c = std::abs(options.attention_output_scale);
    const double x = mistake == Mistake::fixed_activation ? initial : a;
    if (mistake == Mistake::whole_norms) {
      const double gain = c * sigma(o) * sigma(v);
      return residual(options.attention_alpha, gain, gain * (1.0 + 2.0 * s * x * x * sigma(q) * sigma(k)));
    }
    const int64_t heads = options.num_attention_heads;
    const auto query = head_norms(q, heads);
    const auto key = head_norms(k, heads);
    const auto value = head_norms(v, heads);
    const double content = 2.0 * s * static_cast<double>(heads) * x * x;
    at::Tensor scaled_query = q.detach().to(at::kDouble).clone();
    at::Tensor scaled_output = o.detach().to(at::kDouble).clone();
    double values = 0.0;
    double by_head = 0.0;
    for (int64_t h = 0; h < heads; ++h) {
      const auto i = static_cast<size_t>(h);
      const double head = value[i] / scales[i];
      values += head * head;
      by_head += std::pow(head * (1.0 + content * query[i] * key[i]), 2.0);
      scaled_query.chunk(heads, 0)[i].mul_(key[i] * head);
      scaled_output.chunk(heads, 1)[i].mul_(scales[i]);
    }
    const double shared = std::sqrt(values) + content * sigma(scaled_query);
    const double out = c * sigma(scaled_output);
    residual(options.attention_alpha, out * std::sqrt(values), out * std::min(shared, std::sqrt(by_head)));
  }

  double slope() const {
    if (options.activation == ActivationKind::relu || mistake == Mistake::no_kappa) return 1.0;
    if (mistake == Mistake::rounded_kappa) return 1.1289;
    return options.activation == ActivationKind::gelu ? 1.128904145186 : 1.128993068659;
  }

  void feed_forward(const at::Tensor& up, const at::Tensor& down) {
    const double gain = sigma(up) * sigma(down) / options.activation_divisor;
    const double stretch = mistake == Mistake::divided_twice ? gain / options.activation_divisor : gain;
    residual(options.mlp_alpha, gain, slope() * stretch);
  }
};

}  // namespace

Network network(int number) {
  constexpr const char* kinds[kNetworkKinds] = {"orthogonal", "trained_like", "one_head", "different_tokens",
                                                "neuron",     "growth",       "content"};
  Dice dice(number);
  Network result{.kind = kinds[number % kNetworkKinds]};
  result.model = of_kind(result.kind, dice);
  result.domain = dice.one_of({1.0, 1.0, dice.between(1.0, 2.0)});
  result.sequence_length = result.kind == "different_tokens"
                               ? transformer_options(*result.model).num_attention_heads
                               : 3 + dice.below(4);
  return result;
}

double observed_lipschitz(const Network& network, int rounds) {
  return search_stretch(
             *network.model,
             {.domain = network.domain, .sequence_length = network.sequence_length, .rounds = rounds})
      .lipschitz;
}

double twin_bound(const Network& network, Mistake mistake) {
  const TransformerOptions options = transformer_options(*network.model);
  RecordingNorms norms;
  Walk walk(norms);
  network.model->bound(network.domain, walk);
  const auto scales = [&](const std::string& output) {
    for (const WeightFacts& facts : norms.facts())
      if (facts.name == output && !facts.scales.empty()) return facts.scales;
    return std::vector<double>(static_cast<size_t>(options.num_attention_heads), 1.0);
  };
  Twin twin{.options = options, .mistake = mistake, .initial = network.domain, .a = network.domain};
  const std::vector<Param>& params = network.model->params();
  for (size_t i = 0; i < params.size(); ++i) {
    const at::Tensor weight = params[i].tensor.detach();
    if (params[i].role == Role::position_embedding)
      twin.initial = twin.a = network.domain + largest_row(weight);
    if (params[i].role == Role::attention_output)
      twin.attention(params[i - 3].tensor, params[i - 2].tensor, params[i - 1].tensor, weight,
                     scales(params[i].name));
    if (params[i].role == Role::mlp_down) twin.feed_forward(params[i - 1].tensor, weight);
    if (params[i].role == Role::head)
      twin.lipschitz *= sigma(weight) *
                        std::sqrt(static_cast<double>(weight.size(1)) / static_cast<double>(weight.size(0)));
  }
  return twin.lipschitz * std::abs(options.final_scale);
}

}  // namespace bridle::test
