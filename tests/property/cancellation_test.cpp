// Networks built so that a float64 forward pass loses what exact arithmetic keeps: signals cancel in one layer, and the next
// ones amplify what is left by up to 2^80. In 210 digits, no local bound, no activation, no enclosed logit and no certified
// prediction is false; measured numbers without their error often are.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/from_blob.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "bridle/certify.h"
#include "bridle/predictions.h"
#include "exact_forward.h"
#include "nn/enclosure.h"
#include "nn_support.h"
#include "source_support.h"
#include "support.h"

namespace bridle {
namespace {

using test::Real;
using test::RealRows;

constexpr int kNetworks = 480;
constexpr int kShards = 8;  // CTest runs them side by side
constexpr int64_t kTokens = 4;

// Draws of one network: the same for the same number.
class Draws {
 public:
  explicit Draws(int number) : seed_(static_cast<uint64_t>(number) + 1) {}
  int64_t below(int64_t limit) {
    return random_integers({1}, limit, {.seed = seed_, .stream = Stream::test, .step = step_++})
        .item<int64_t>();
  }
  double power(int64_t least, int64_t most) {
    return std::ldexp(1.0, static_cast<int>(least + below(most - least + 1)));
  }

 private:
  uint64_t seed_;
  uint64_t step_ = 0;
};

ModelOptions options_of(int number) {
  TransformerOptions o{.vocab_size = 6,
                       .hidden_size = 8,
                       .num_hidden_layers = 2,
                       .num_attention_heads = 2,
                       .intermediate_size = 8,
                       .max_position_embeddings = kTokens,
                       .attention_alpha = 0.5,
                       .mlp_alpha = 0.25};
  switch (number % 10) {
    case 0:
      return MlpOptions{.layer_sizes = {8, 8, 6, 4}, .final_scale = 3.0};
    case 1:
      return MlpOptions{.layer_sizes = {8, 8, 8, 6, 4}, .activation = ActivationKind::maxmin};
    case 2:
      o.activation = ActivationKind::relu;
      o.positions = PositionKind::none;
      return o;
    case 3:
      o.activation = ActivationKind::gelu;
      o.positions = PositionKind::learned;
      o.logit_bias = true;
      return o;
    case 4:
      o.bias = true;
      o.norm = NormLayer::layer_norm;
      return o;
    case 5:
      o.norm = NormLayer::rms_norm;
      o.norm_epsilon = 0.1;
      o.position_bias = true;
      return o;
    case 6:
      o.residual = ResidualKind::plain;
      o.norm = NormLayer::tanh;
      o.bias = true;
      return o;
    case 7:
      o.learnable_scales = true;
      o.position_bias = true;
      o.softmax_scale = -2.0;
      return o;
    case 8:
      o.attention_alpha = 0.75;
      o.tie_embeddings = true;
      o.real_vocab_size = 5;
      return o;
    default:
      return o;
  }
}

// Of the first half of the inputs, which are all equal, w·x keeps the small entries in exact arithmetic and loses them in
// float64, unless they happen to be added before or after the large ones.
void make_lossy_(const at::Tensor& weight, Draws& draws) {
  weight.zero_();
  const int64_t half = weight.size(1) / 2;
  for (int64_t row = 0; row < weight.size(0); ++row) {
    const int64_t first = draws.below(half);
    weight[row].narrow(0, 0, half).fill_(draws.power(-30, -14));
    weight[row][first].fill_(0x1p40);
    weight[row][(first + 1 + draws.below(half - 1)) % half].fill_(-0x1p40);
  }
}

struct Adversary {
  std::unique_ptr<Model> model;
  at::Tensor inputs;  // tokens [1, T], or pixels [1, D]
};

// Kinds by turns: random; matrices of very different sizes; a lossy matrix; a lossy matrix, then large ones.
Adversary adversary(int number) {
  const at::NoGradGuard no_gradients;
  Draws draws(number);
  const int kind = number / 10 % 4;
  auto model = test::random_model(options_of(number), 0.4, static_cast<uint64_t>(number) * 100 + 7);
  const bool mlp = model->shape().input == InputKind::vectors;
  bool lossy = kind >= 2;
  for (const Param& param : model->params()) {
    const at::Tensor& t = param.tensor;
    if (param.role == Role::embedding && kind != 0) t.copy_(t.sign()).narrow(1, 0, 4).fill_(1.0);
    if (param.role == Role::gain && kind != 0) t.fill_(1.0);
    if (!is_matrix(param.role)) continue;
    const bool first = mlp ? param.name == "model.layers.0.weight" : param.role == Role::value;
    if (lossy && first) {
      make_lossy_(t, draws);
      lossy = false;
    } else if (kind == 1) {
      t.mul_(draws.power(-10, 10));
    } else if (kind == 3 && param.role != Role::query && param.role != Role::key) {
      t.mul_(draws.power(0, 40));
    }
  }
  const auto seed = static_cast<uint64_t>(number);
  const at::Tensor pixels = test::normal({1, 8}, seed, at::kFloat).sign();
  pixels.narrow(1, 0, 4).fill_(1.0);
  const at::Tensor tokens = random_integers({1, kTokens}, 5, {.seed = seed, .stream = Stream::test});
  return {std::move(model), mlp ? pixels : tokens};
}

at::Tensor embedded(const Adversary& own) {
  Pass pass{.dtype = at::kDouble};
  return own.model->embed(own.inputs, pass);
}

RealRows moved(const RealRows& x, const at::Tensor& direction, double step) {
  RealRows result = x;
  for (size_t t = 0; t < x.size(); ++t)
    for (size_t i = 0; i < x[t].size(); ++i)
      result[t][i] +=
          Real(direction[static_cast<int64_t>(t)][static_cast<int64_t>(i)].item<double>()) * Real(step);
  return result;
}

Real largest_rms_of_difference(const RealRows& a, const RealRows& b) {
  using test::operator-;
  Real most;
  for (size_t t = 0; t < a.size(); ++t) most = max(most, test::rms(a[t] - b[t]));
  return most;
}

// Of RMS 1 in one token, or in all of them.
at::Tensor direction(const at::Tensor& like, int which) {
  at::Tensor v = test::normal(like.sizes(), static_cast<uint64_t>(which) + 50);
  if (which < 8) {
    v.zero_();
    v[which % like.size(0)][which % like.size(1)].fill_(std::sqrt(static_cast<double>(like.size(1))));
    return v;
  }
  return v.div(v.square().mean(-1, true).sqrt());
}

class ExactArithmeticOn : public testing::TestWithParam<int> {};

TEST_P(ExactArithmeticOn, NeverLeavesAnEnclosureOrALocalBound) {
  const at::NoGradGuard no_gradients;
  int measured_too_small = 0, tighter = 0;
  for (int i = GetParam(); i < kNetworks; i += kShards) {
    const Adversary own = adversary(i);
    const at::Tensor x = embedded(own);
    const at::Tensor rows = x.view({-1, x.size(-1)});
    const RealRows start = test::real_rows(rows);
    const test::ExactPass exact = test::exact_forward(*own.model, start);
    ErrorWalk walk;
    const LogitEnclosure enclosed = own.model->enclose(x, walk);
    const at::Tensor logits = enclosed.logits.view({-1, enclosed.logits.size(-1)}),
                     error = enclosed.error[0].view({-1});
    for (size_t t = 0; t < exact.logits.size(); ++t) {
      const auto token = static_cast<int64_t>(t);
      for (size_t c = 0; c < exact.logits[t].size(); ++c) {
        const double off =
            abs(exact.logits[t][c] - Real(logits[token][static_cast<int64_t>(c)].item<double>()))
                .magnitude_below();
        ASSERT_FALSE(off > error[token].item<double>()) << "network " << i << ", logit " << c;
      }
    }
    ActivationStatistics statistics;
    Pass pass{.dtype = at::kDouble, .statistics = &statistics};
    own.model->forward_from(x, pass);
    bool small = false;
    for (const auto& [name, rms] : exact.largest_rms) {
      ASSERT_GE(walk.activations.at(name).to_double(), rms.magnitude_below())
          << "network " << i << ", " << name;
      small = small || Real(statistics.layers.at(name).largest_rms * (1.0 + 1e-6)) < rms;
    }
    measured_too_small += small ? 1 : 0;

    const double global = certify(*own.model, 1e-3).lipschitz.value;
    for (const double radius : {1e-40, 1e-20, 1e-6}) {
      const double bound =
          certify_near(*own.model, neighbourhood_of(*own.model, {own.inputs}, radius)).lipschitz.value;
      EXPECT_LE(bound, global * (1 + 1e-9)) << "network " << i;
      tighter += bound < 0.5 * global ? 1 : 0;
      for (int which = 0; which < 12; ++which) {
        const at::Tensor v = direction(rows, which);
        const double step = 0.5 * radius;
        const Real ratio = largest_rms_of_difference(
                               test::exact_forward(*own.model, moved(start, v, step)).logits, exact.logits) /
                           largest_rms_of_difference(moved(start, v, step), start);
        ASSERT_LE(ratio.magnitude_below(), bound) << "network " << i << ", radius " << radius;
      }
    }
  }
  EXPECT_GT(measured_too_small, 3);  // these networks would break an activation that is only measured
  EXPECT_GT(tighter, 3);             // and some local bounds still say more than the global one
}

int64_t largest(const test::RealVector& logits) {
  size_t best = 0;
  for (size_t c = 1; c < logits.size(); ++c)
    if (logits[best] < logits[c]) best = c;
  return static_cast<int64_t>(best);
}

TEST_P(ExactArithmeticOn, NeverChangesACertifiedPrediction) {
  const at::NoGradGuard no_gradients;
  int certified = 0, wrong = 0;
  for (int i = GetParam(); i < kNetworks; i += kShards) {
    const Adversary own = adversary(i);
    const bool mlp = own.model->shape().input == InputKind::vectors;
    const std::vector<double> epsilons{0.0, 1e-12, 1e-6, 1e-3, 3e-2};
    const auto result =
        certify_predictions(*own.model, test::labelled(*own.model, own.inputs), {.epsilons = epsilons});
    const at::Tensor x = embedded(own);
    const at::Tensor rows = x.view({-1, x.size(-1)});
    const RealRows start = test::real_rows(rows);
    const double unit =
        mlp ? 1.0 / std::sqrt(static_cast<double>(rows.size(1))) : 1.0;  // RMS of an ℓ2 norm of 1
    for (size_t e = 0; e < epsilons.size(); ++e) {
      for (int which = 0; which < (e == 0 ? 1 : 10); ++which) {
        const at::Tensor v = direction(rows, which);
        const RealRows logits = test::exact_forward(*own.model, moved(start, v, epsilons[e] * unit)).logits;
        const at::Tensor near = rows.add(v, epsilons[e] * unit * (1.0 - 1e-9)).view(x.sizes());
        for (size_t t = 0; t < logits.size(); ++t) {
          const auto token = static_cast<int64_t>(t);
          const int64_t said = result.predicted[token].item<int64_t>();
          const bool stands = result.of("exact").stands[static_cast<int64_t>(e)][token].item<bool>();
          ASSERT_FALSE(stands && largest(logits[t]) != said)
              << "network " << i << ", epsilon " << epsilons[e];
          certified += stands ? 1 : 0;
          wrong += largest(logits[t]) != said ? 1 : 0;
        }
        for (const auto& [name, dtype] :
             {std::pair{"float32", at::kFloat}, std::pair{"bfloat16", at::kBFloat16}}) {
          Pass pass{.dtype = dtype};
          const at::Tensor computed =
              own.model->forward_from(near.to(at::kFloat).to(dtype), pass).to(at::kFloat);
          const at::Tensor classes = computed.reshape({-1, computed.size(-1)}).argmax(1);
          const at::Tensor stands = result.of(name).stands[static_cast<int64_t>(e)];
          ASSERT_FALSE(classes.ne(result.predicted).logical_and(stands).any().item<bool>())
              << "network " << i << ", epsilon " << epsilons[e] << ", " << name;
        }
      }
    }
  }
  EXPECT_GT(certified, 50);
  EXPECT_GT(wrong, 20);
}

INSTANTIATE_TEST_SUITE_P(Adversaries, ExactArithmeticOn, testing::Range(0, kShards));

}  // namespace
}  // namespace bridle
