#include "nn/content_heads.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <cmath>

#include "nn_support.h"
#include "support.h"

namespace bridle {
namespace {

constexpr int64_t kSize = 32;
constexpr double kShut = -80.0;  // a logit that leaves nothing

TransformerOptions with_content(int64_t heads = 2) {
  return {.vocab_size = 11,
          .hidden_size = kSize,
          .num_hidden_layers = 1,
          .mixing = MixingKind::quadrature,
          .content_heads = heads,
          .num_attention_heads = 1,
          .max_position_embeddings = 8,
          .positions = PositionKind::none};
}

double price(double range) { return range + std::sqrt(1.0 + range * range); }

// Content heads by themselves.
struct Alone {
  explicit Alone(const TransformerOptions& options, at::ScalarType dtype = at::kDouble)
      : bench(options, dtype), heads(bench.options, bench.weights, "mixing", 0) {}
  at::Tensor tensor(Role role) const {
    for (const Param& param : bench.params)
      if (param.role == role) return param.tensor.detach();
    return {};
  }
  double stretch(double activation) const {
    const auto norms = measured_norms();
    Walk walk(*norms);
    return heads.stretch(activation, walk).to_double();
  }
  // What the mixture reads, of all heads: [B, K, T, d].
  at::Tensor read(const at::Tensor& x) const {
    return heads.means(x, x, bench.pass).div(heads.prices(x).view({1, -1, 1, 1}));
  }
  test::Bench bench;
  ContentHeads heads;
};

TEST(ContentHeads, GradientsAreThoseOfFiniteDifferences) {
  for (const int64_t window : {0, 3}) {
    TransformerOptions options = with_content();
    options.attention_window = window;
    Alone alone(options);
    alone.bench.randomize_(0.4);
    const at::Tensor x = test::normal({2, 6, kSize}, 1).requires_grad_(true);
    test::expect_gradients([&] { return alone.read(x); }, alone.bench.tensors(x));
  }
}

TEST(ContentHeads, BeginWithNormsOfOnePerHeadARangeOfOneAndWeightsThatDecay) {
  TransformerOptions options = with_content(3);
  options.content_size = 64;
  const Alone alone(options);
  for (const Param& param : alone.bench.params) {
    if (!is_matrix(param.role)) continue;
    EXPECT_EQ(param.blocks, 3) << param.name;
    for (int64_t head = 0; head < 3; ++head)
      EXPECT_NEAR(test::spectral_norm(param.block_view()[head]), std::sqrt(64.0 / kSize), 1e-12);
  }
  EXPECT_NEAR(alone.stretch(1.0), 1.0, 1e-6);
  for (int64_t head = 0; head < 3; ++head)
    EXPECT_NEAR(alone.heads.prices(at::zeros({1}, at::kDouble))[head].item<double>(), 1.0 + std::sqrt(2.0),
                1e-12);
  const at::Tensor bias = alone.tensor(Role::position_bias);
  EXPECT_NEAR(bias[0][7].item<double>(), -7.0 / 8.0, 1e-12);
  EXPECT_NEAR(bias[2][4].item<double>(), -4.0 / 128.0, 1e-12);
}

TEST(ContentHeads, GoOnFromACache) {
  const at::NoGradGuard no_gradients;
  Alone alone(with_content());
  alone.bench.randomize_(0.4);
  const at::Tensor x = test::normal({2, 7, kSize}, 1);
  const at::Tensor whole = alone.heads.means(x, x, alone.bench.pass);
  KeyValueCache::Layer cache;
  std::vector<at::Tensor> parts;
  for (int64_t t = 0; t < 7; ++t)
    parts.push_back(alone.heads.means(x.narrow(1, t, 1), x.narrow(1, 0, t + 1), alone.bench.pass, &cache));
  EXPECT_LT(test::largest_difference(at::cat(parts, 2), whole), 1e-12);
}

TEST(ContentHeads, StayInsideADocument) {
  const at::NoGradGuard no_gradients;
  Alone alone(with_content());
  alone.bench.randomize_(0.4);
  const at::Tensor x = test::normal({1, 7, kSize}, 1), second = x.narrow(1, 4, 3);
  Pass pass{.dtype = at::kDouble, .begins = at::zeros({1, 7}, at::kLong)};
  pass.begins.narrow(1, 4, 3).fill_(4);
  const at::Tensor together = alone.heads.means(x, x, pass);
  EXPECT_LT(test::largest_difference(together.narrow(2, 4, 3),
                                     alone.heads.means(second, second, Pass{.dtype = at::kDouble})),
            1e-12);
}

// A range beyond e¹⁰ is e¹⁰.
TEST(ContentHeads, KeepTheirRangeFinite) {
  const at::NoGradGuard no_gradients;
  const Alone alone(with_content());
  alone.tensor(Role::content_range).copy_(at::zeros({2}, at::kDouble).add(300.0));
  const at::Tensor prices = alone.heads.prices(at::zeros({1}, at::kDouble));
  EXPECT_NEAR(prices[0].item<double>(), 2.0 * std::exp(10.0), 1e-3);
  EXPECT_TRUE(alone.read(test::normal({1, 4, kSize}, 1)).isfinite().all().item<bool>());
}

// Two tokens ±e that a third one reads in equal parts; Q = K = 1. Moving the query along e, and the keys against one another along
// the query, moves weights from one to the other while both tokens move along e: everything adds up, and ℓ(r) is reached.
double hardest_case(const Alone& alone, int64_t head, double range) {
  const double length = std::sqrt(static_cast<double>(kSize)), step = 1e-6;
  const at::Tensor x = at::zeros({1, 3, kSize}, at::kDouble), moved = x.clone();
  x[0][0][0] = length;
  x[0][1][0] = -length;
  x[0][2][1] = length;
  const double angle = std::atan(range);
  moved[0][0][0] = moved[0][1][0] = std::cos(angle);
  moved[0][0][1] = std::sin(angle);
  moved[0][1][1] = -std::sin(angle);
  moved[0][2][0] = 1.0;
  const auto at = [&](double t) { return alone.read(x.add(moved, t * step))[0][head][2]; };
  return at(1.0).sub(at(-1.0)).norm().item<double>() / (2.0 * step);
}

// Statement 13, reached: with 1 + r for the price, which does not count the query, or with another head's, it would be exceeded.
TEST(ContentHeads, ReachTheirPriceEachForItself) {
  const at::NoGradGuard no_gradients;
  const Alone alone(with_content(3));
  for (const Role role : {Role::content_query, Role::content_key})
    alone.tensor(role).copy_(at::eye(kSize, at::kDouble).repeat({3, 1}));
  alone.tensor(Role::position_bias).zero_().select(1, 0).fill_(kShut);  // nobody reads itself
  const double ranges[] = {0.1, 1.0, 6.0};
  for (int64_t head = 0; head < 3; ++head) alone.tensor(Role::content_range)[head] = std::log(ranges[head]);
  EXPECT_NEAR(alone.stretch(1.0), 1.0, 1e-6);
  for (int64_t head = 0; head < 3; ++head) {
    const double range = ranges[head], reached = hardest_case(alone, head, range);
    EXPECT_NEAR(reached, 1.0, 1e-6) << range;
    const double unpaid = reached * price(range);
    EXPECT_GT(unpaid, 1.0 + range + 1e-3) << "a price of 1 + r would be too small";
    if (head == 0) continue;
    EXPECT_GT(unpaid, 1.5 * price(ranges[head - 1])) << "and so would another head's";
  }
}

// Norms beyond 1 and longer tokens are paid for by the bound, whatever the range is.
TEST(ContentHeads, BoundWhatNormsAndTokensBeyondOneAdd) {
  const at::NoGradGuard no_gradients;
  const Alone alone(with_content(2));
  const at::Tensor q = alone.tensor(Role::content_query), k = alone.tensor(Role::content_key);
  q.narrow(0, kSize, kSize).mul_(3.0);
  k.narrow(0, kSize, kSize).mul_(0.5);
  EXPECT_NEAR(alone.stretch(1.0), 1.5, 1e-6);
  EXPECT_NEAR(alone.stretch(2.0), 6.0, 1e-5);
  EXPECT_EQ(alone.stretch(0.1), 1.0);
  for (const double range : {1e-3, 0.3, 1.0, 4.0, 100.0})
    for (const double over : {1.0, 1.5, 10.0}) {
      EXPECT_LE(price(range * over) / price(range), over) << range << " " << over;
      EXPECT_LE(price(range / over) / price(range), 1.0) << range << " " << over;
    }
}

TEST(ContentHeads, StretchStaysBelowTheBound) {
  double nearest = 0.0;
  for (uint64_t seed = 0; seed < 12; ++seed) {
    TransformerOptions options = with_content(1 + static_cast<int64_t>(seed % 2));
    options.content_size = seed % 3 == 0 ? 64 : 32;
    Alone alone(options);
    alone.bench.randomize_(seed % 4 == 0 ? 0.05 : 0.3, 100 + seed);
    const double bound = alone.stretch(1.0);
    for (int64_t head = 0; head < options.content_heads; ++head) {
      const double observed = test::observed_stretch(
          [&](const at::Tensor& x) { return alone.read(x).select(1, head); }, {1, 5, kSize}, 1.0, seed);
      EXPECT_LE(observed, bound * (1.0 + 1e-6)) << seed;
      nearest = std::max(nearest, observed / bound);
    }
  }
  EXPECT_GT(nearest, 0.3);
}

}  // namespace
}  // namespace bridle
