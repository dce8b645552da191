// Networks with LipsFormer's parts: what a search finds never exceeds the bound. Scaled cosine attention is steepest where tokens
// are as small as √ε, so that the search goes there too, and two kinds of networks are built to come close to the bound: one head
// whose values are steep (`values`), and a query near zero between keys and values that are far from it (`query`).
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "bridle/certify.h"
#include "certify_support.h"
#include "dice.h"
#include "nn/attention.h"
#include "nn_support.h"
#include "support.h"

namespace bridle {
namespace {

using test::Dice;

constexpr int kNetworks = 240;
constexpr int kShards = 8;          // CTest runs them side by side; each meets every kind
constexpr double kRounding = 1e-9;  // of a small difference in float64, where a bound is reached
constexpr int64_t kTokens = 12;

// τ and ν, and output / heads, in the words of TransformerOptions: queries, keys and values are x/√(|x|²/d_h + ε/d_h), which is √d_h
// times LipsFormer's x/√(|x|² + ε).
struct Scales {
  double tau = 12.0, nu = 1.0, epsilon = 1e-6;
};

void set_(TransformerOptions& o, const Scales& scales) {
  const auto size = static_cast<double>(o.head_size()), heads = static_cast<double>(o.num_attention_heads);
  o.qk_norm = o.value_norm = true;
  o.qk_norm_epsilon = scales.epsilon / size;
  o.softmax_scale = scales.tau;
  o.attention_output_scale = scales.nu / (std::sqrt(size) * heads);
}

struct Case {
  std::string kind = {};
  std::unique_ptr<Model> model = {};
  double small = 1.0;  // RMS of tokens about which attention is steep
  double domain = 1.0;
  at::Tensor x = {}, change = {};  // [1, T, d]: where the kind knows an input to try
};

TransformerOptions random_shape(Dice& dice) {
  TransformerOptions o{.vocab_size = 16,
                       .hidden_size = 16,
                       .num_hidden_layers = 1 + dice.below(3),
                       .num_attention_heads = dice.one_of<int64_t>({1, 2, 4}),
                       .max_position_embeddings = kTokens,
                       .positions = dice.one_of({PositionKind::rope, PositionKind::none}),
                       .residual = ResidualKind::plain,
                       .attention_alpha = dice.between(0.05, 1.0),
                       .mlp_alpha = dice.between(0.05, 1.0),
                       .learned_alpha = LearnedAlpha::vector,
                       .norm = dice.one_of({NormLayer::center_norm, NormLayer::none})};
  o.norm_after = o.norm != NormLayer::none && dice.below(2) == 0;
  o.attention_window = dice.one_of<int64_t>({0, 4});
  o.window_block = o.attention_window > 0 ? 2 : 1;
  return o;
}

Case random_case(bool trained, Dice& dice) {
  TransformerOptions o = random_shape(dice);
  const Scales scales{.tau = dice.one_of({1.0, 12.0, dice.between(0.1, 20.0)}),
                      .nu = dice.between(0.5, 2.0),
                      .epsilon = dice.between_logs(1e-6, 1.0)};
  set_(o, scales);
  Case made{.kind = trained ? "trained_like" : "orthogonal", .model = make_model(o, 1)};
  const at::NoGradGuard no_gradients;
  for (const Param& param : made.model->params()) {
    if (is_matrix(param.role)) param.tensor.copy_(test::random_weight(param, trained, dice));
    if (param.role == Role::residual_weight)
      param.tensor.copy_(random_uniform(param.tensor.sizes(), {.seed = dice.seed(), .stream = Stream::test}));
    if (param.role == Role::gain) param.tensor.copy_(test::normal(param.tensor.sizes(), dice.seed()));
  }
  made.small = std::sqrt(scales.epsilon / static_cast<double>(o.hidden_size)) * dice.between_logs(0.1, 10.0);
  return made;
}

at::Tensor weight(const Model& model, Role role) {
  for (const Param& param : model.params())
    if (param.role == role) return param.tensor.detach();
  return {};
}

// One block with one head whose feed-forward branch is shut; the head is the identity.
std::unique_ptr<Model> built(const Scales& scales, double alpha) {
  TransformerOptions o{.vocab_size = 16,
                       .hidden_size = 16,
                       .num_hidden_layers = 1,
                       .num_attention_heads = 1,
                       .max_position_embeddings = kTokens,
                       .positions = PositionKind::none,
                       .residual = ResidualKind::plain,
                       .attention_alpha = alpha,
                       .mlp_alpha = 1e-6,
                       .learned_alpha = LearnedAlpha::vector};
  set_(o, scales);
  auto model = make_model(o, std::nullopt);
  const at::NoGradGuard no_gradients;
  for (const Param& param : model->params())
    if (param.role == Role::head) param.tensor.fill_diagonal_(1.0);
  return model;
}

// All tokens move in the same direction from zero: the values' own slope is reached, and little else counts.
Case values(Dice& dice) {
  const Scales scales{.tau = 0.01, .epsilon = dice.between_logs(1e-6, 1e-2)};
  Case made{.kind = "values", .model = built(scales, 1.0), .domain = 1.0};
  const at::NoGradGuard no_gradients;
  weight(*made.model, Role::value).fill_diagonal_(dice.between(0.5, 2.0));
  weight(*made.model, Role::attention_output).fill_diagonal_(1.0);
  for (const Role role : {Role::query, Role::key}) weight(*made.model, role).fill_diagonal_(1e-3);
  made.x = at::zeros({1, kTokens, 16}, at::kDouble);
  made.change = test::normal({1, 1, 16}, dice.seed()).expand({1, kTokens, 16});
  made.small = std::sqrt(scales.epsilon);
  return made;
}

// The last token is zero. Those before it are ±e₀ in turn, which keys (as ±e₂) and values read; moving the last one along e₁ turns
// its query, at once of full length, towards one half of the keys.
Case query(Dice& dice) {
  const Scales scales{.tau = dice.between(4.0, 12.0), .epsilon = dice.between_logs(1e-6, 1e-4)};
  Case made{.kind = "query", .model = built(scales, 1.0), .domain = 1.0};
  const at::NoGradGuard no_gradients;
  constexpr double small =
      0.05;  // so that the slopes of keys and values, which are not reached here, cost little
  weight(*made.model, Role::query)[2][1] = 1.0;
  weight(*made.model, Role::key)[2][0] = small;
  weight(*made.model, Role::value)[0][0] = small;
  weight(*made.model, Role::attention_output)[0][0] = 1.0;
  made.x = at::zeros({1, kTokens, 16}, at::kDouble);
  for (int64_t t = 0; t + 1 < kTokens; ++t) made.x[0][t][0] = t % 2 == 0 ? 3.9 : -3.9;  // RMS below 1
  made.change = at::zeros({1, kTokens, 16}, at::kDouble);
  made.change[0][kTokens - 1][1] = 1.0;
  made.small = std::sqrt(scales.epsilon);
  return made;
}

Case numbered(int number) {
  Dice dice(number);
  switch (number % 4) {
    case 0:
      return random_case(/*trained=*/false, dice);
    case 1:
      return random_case(/*trained=*/true, dice);
    case 2:
      return values(dice);
    default:
      return query(dice);
  }
}

double bound_of(const Case& of) {
  const auto norms = measured_norms();
  Walk walk(*norms);
  return of.model->bound(of.domain, walk).lipschitz.to_double();
}

double rms(const at::Tensor& x) { return test::largest_rms(x); }

// The stretch from x to x + h·change, and the larger ones that searches in the whole domain and near zero find.
double observed(const Case& of) {
  double most = 0.0;
  if (of.x.defined()) {
    const at::NoGradGuard no_gradients;
    Pass pass{.dtype = at::kDouble};
    for (const double share : {1e-3, 1e-2, 0.1}) {
      const at::Tensor step = of.change.mul(share * of.small / rms(of.change));
      const at::Tensor y = of.model->forward_from(of.x.add(step), pass);
      most = std::max(most, rms(y.sub(of.model->forward_from(of.x, pass))) / rms(step));
    }
  }
  for (const double domain : {of.domain, std::min(of.domain, of.small)})
    most = std::max(
        most, search_stretch(*of.model, {.domain = domain, .sequence_length = 4, .rounds = 12}).lipschitz);
  return most;
}

class TwoHundredLipsformers : public testing::TestWithParam<int> {};

TEST_P(TwoHundredLipsformers, AreNeverStretchedMoreThanTheirBound) {
  std::map<std::string, double> closest;
  for (int i = GetParam(); i < kNetworks; i += kShards) {
    const Case of = numbered(i / kShards + i);  // so that every shard meets every kind
    const double bound = bound_of(of), seen = observed(of);
    EXPECT_LE(seen, bound * (1.0 + kRounding)) << "network " << i << ", " << of.kind;
    closest[of.kind] = std::max(closest[of.kind], seen / bound);
  }
  for (const auto& [kind, share] : closest) RecordProperty(kind, fmt::format("{:.6f}", share));
  // A search that finds nothing would prove nothing.
  EXPECT_GT(closest["values"], 0.9);
  EXPECT_GT(closest["query"], 0.5);
}

INSTANTIATE_TEST_SUITE_P(Shard, TwoHundredLipsformers, testing::Range(0, kShards));

// Attention's bound is the formula that docs/theory/modules.md states for it, without the length of the sequence: heads in
// quadrature, each ν·ε^(−1/2)·(τ(σ(Q_h) + σ(K_h)) + σ(V_h)), times σ(W_O)/heads.
TEST(LipsformerAttention, HasTheBoundThatItsFormulaGives) {
  for (const int64_t heads : {1, 2, 4}) {
    TransformerOptions o = test::small_transformer();
    o.num_attention_heads = heads;
    const Scales scales{.tau = 12.0, .nu = 1.5, .epsilon = 1e-6};
    set_(o, scales);
    test::Bench bench(o, at::kFloat);
    const Attention attention(bench.options, bench.weights, "attention", 0);
    bench.randomize_(0.3);
    double squares = 0.0;
    for (int64_t h = 0; h < heads; ++h) {
      const auto norm = [&](size_t which) {
        return test::spectral_norm(bench.params[which].tensor.detach().chunk(heads)[static_cast<size_t>(h)]);
      };
      const double head =
          scales.nu / std::sqrt(scales.epsilon) * (scales.tau * (norm(0) + norm(1)) + norm(2));
      squares += head * head;
    }
    const double expected = std::sqrt(squares) * test::spectral_norm(bench.params[3].tensor.detach()) /
                            static_cast<double>(heads);
    const auto norms = measured_norms();
    Walk walk(*norms);
    const double bound = attention.bound({.activation = 1.0, .lipschitz = 1.0}, walk).lipschitz.to_double();
    // Scales of heads make it smaller where they help, and never larger.
    EXPECT_LE(bound, expected * (1.0 + 1e-6)) << heads;
    EXPECT_GT(bound, 0.7 * expected) << heads;
    if (heads == 1) {
      EXPECT_NEAR(bound / expected, 1.0, 1e-6);
    }
  }
}

}  // namespace
}  // namespace bridle
