#include "nn/residual.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/ones_like.h>
#include <gtest/gtest.h>

#include <cmath>

#include "nn_support.h"
#include "support.h"

namespace bridle {
namespace {

// A residual by itself, with the weights that it may have.
struct Alone {
  Alone(ResidualKind kind, double alpha, LearnedAlpha learned = LearnedAlpha::none)
      : bench(options_of(kind, learned)), residual(bench.options, bench.weights, "alpha", alpha) {}
  static TransformerOptions options_of(ResidualKind kind, LearnedAlpha learned) {
    TransformerOptions options = test::small_transformer();
    options.residual = kind;
    options.learned_alpha = learned;
    return options;
  }
  Bound bound(const Bound& x, const Bound& branch) const {
    const auto norms = measured_norms();
    Walk walk(*norms);
    return residual.bound(x, branch, walk);
  }
  test::Bench bench;
  Residual residual;
};

TEST(ResidualModule, MixesOrAdds) {
  const at::Tensor x = test::normal({3, 4}, 1).requires_grad_(true);
  const at::Tensor y = test::normal({3, 4}, 2).requires_grad_(true);
  const Alone convex(ResidualKind::convex, 0.25), plain(ResidualKind::plain, 0.25);
  EXPECT_TRUE(convex.residual.forward(x, y).allclose(x.mul(0.75).add(y.mul(0.25))));
  EXPECT_TRUE(plain.residual.forward(x, y).equal(x.add(y)));
  test::expect_gradients([&] { return convex.residual.forward(x, y); }, {x, y});
}

TEST(ResidualModule, BoundIsTheSameMixtureRoundedUp) {
  const Bound x{.activation = 1.0, .lipschitz = 2.0};
  const Bound f{.activation = 3.0, .lipschitz = 10.0};
  const Bound convex = Alone(ResidualKind::convex, 0.1).bound(x, f);
  EXPECT_GT(convex.lipschitz.to_double(), 0.9 * 2.0 + 0.1 * 10.0);
  EXPECT_NEAR(convex.lipschitz.to_double(), 2.8, 1e-14);
  EXPECT_NEAR(convex.activation.to_double(), 1.2, 1e-14);
  EXPECT_EQ(Alone(ResidualKind::plain, 0.1).bound(x, f).lipschitz.to_double(), 12.0);
  EXPECT_NEAR(Alone(ResidualKind::convex, 1.5).bound(x, f).lipschitz.to_double(), 0.5 * 2.0 + 1.5 * 10.0,
              1e-12);  // |1 − α|
}

TEST(ResidualModule, ALearnedAlphaIsTakenAsItIs) {
  const at::Tensor x = test::normal({3, 4}, 1).requires_grad_(true);
  const at::Tensor y = test::normal({3, 4}, 2).requires_grad_(true);
  Alone learned(ResidualKind::convex, 0.25, LearnedAlpha::scalar);
  ASSERT_EQ(learned.bench.params.size(), 1U);
  const at::Tensor alpha = learned.bench.params[0].tensor;
  EXPECT_EQ(learned.bench.params[0].role, Role::residual_weight);
  test::expect_gradients([&] { return learned.residual.forward(x, y); }, {x, y, alpha});
  const Bound a{.activation = 1.0, .lipschitz = 2.0}, f{.activation = 3.0, .lipschitz = 10.0};
  EXPECT_NEAR(learned.bound(a, f).lipschitz.to_double(), 4.0, 1e-12);
  const at::NoGradGuard no_gradients;
  alpha.fill_(-0.5);
  EXPECT_NEAR(learned.bound(a, f).lipschitz.to_double(), 1.5 * 2.0 + 0.5 * 10.0, 1e-12);
}

struct Unknown : test::NoNorms {
  std::optional<Entries> entries(const Param& /*weight*/) override { return std::nullopt; }
};

// Of caps it is known only that α lies in [0, 1].
TEST(ResidualModule, OfAnUnknownAlphaTheWorseEndCounts) {
  Unknown norms;
  Walk walk(norms);
  const Alone learned(ResidualKind::convex, 0.25, LearnedAlpha::scalar);
  const Bound small{.activation = 1.0, .lipschitz = 2.0}, large{.activation = 3.0, .lipschitz = 10.0};
  EXPECT_EQ(learned.residual.bound(small, large, walk), large);
  EXPECT_EQ(learned.residual.bound(large, small, walk), large);
}

TEST(ResidualModule, AVectorWeighsEveryEntryByItsOwn) {
  const at::Tensor x = test::normal({2, 3, 16}, 1).requires_grad_(true);
  const at::Tensor y = test::normal({2, 3, 16}, 2).requires_grad_(true);
  for (const ResidualKind kind : {ResidualKind::convex, ResidualKind::plain}) {
    Alone learned(kind, 0.25, LearnedAlpha::vector);
    const at::Tensor alpha = learned.bench.params[0].tensor;
    ASSERT_EQ(alpha.sizes(), at::IntArrayRef{16});
    EXPECT_TRUE(alpha.eq(0.25).all().item<bool>());
    {
      const at::NoGradGuard no_gradients;
      alpha.copy_(test::normal({16}, 3));
    }
    const at::Tensor kept = kind == ResidualKind::convex ? alpha.neg().add(1.0) : at::ones_like(alpha);
    EXPECT_TRUE(learned.residual.forward(x, y).allclose(x.mul(kept).add(y.mul(alpha)), 1e-4, 1e-5));
    test::expect_gradients([&] { return learned.residual.forward(x, y); }, {x, y, alpha});
  }
}

// The largest RMS of (1 − α)∘x + α∘b, or x + α∘b, for x and b of RMS norms a and f that have nothing to do with each other: x and b
// on one entry or two, and ascends from random ones.
double observed_mixture(bool convex, const at::Tensor& alpha, double a, double f) {
  const int64_t n = alpha.size(0);
  const at::Tensor kept = convex ? alpha.neg().add(1.0) : at::ones_like(alpha);
  const double root = std::sqrt(static_cast<double>(n));
  const auto scaled = [&](const at::Tensor& x, double rms) { return x.mul(rms * root).div(x.norm()); };
  double most = 0.0;
  const auto look = [&](const at::Tensor& x, const at::Tensor& b) {
    most = std::max(most, x.mul(kept).add(b.mul(alpha)).norm().item<double>() / root);
  };
  const at::Tensor units = at::eye(n, at::kDouble);
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < n; ++j)
      for (const double sign : {1.0, -1.0}) look(scaled(units[i], a), scaled(units[j].mul(sign), f));
  for (uint64_t seed = 0; seed < 8; ++seed) {  // y = Ax + Bb: its gradients are Aᵀy and Bᵀy
    at::Tensor x = scaled(test::normal({n}, 2 * seed), a), b = scaled(test::normal({n}, 2 * seed + 1), f);
    for (int step = 0; step < 100; ++step) {
      const at::Tensor y = x.mul(kept).add(b.mul(alpha));
      x = scaled(y.mul(kept), a);
      b = scaled(y.mul(alpha), f);
      look(x, b);
    }
  }
  return most;
}

// Statement 7. A bound that took α's mean for its largest entry would be exceeded, and is seen to be.
TEST(ResidualModule, NoInputExceedsTheBoundOfAVector) {
  int means_exceeded = 0;
  double tightest = 0.0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    const bool convex = seed % 3 != 0;
    Alone learned(convex ? ResidualKind::convex : ResidualKind::plain, 0.25, LearnedAlpha::vector);
    const at::NoGradGuard no_gradients;
    at::Tensor drawn = test::normal({16}, 100 + seed).mul(seed % 5 == 0 ? 2.0 : 0.3);
    if (seed % 2 == 0) drawn = drawn.abs().clamp(0.0, 1.0);
    const at::Tensor alpha = learned.bench.params[0].tensor;
    alpha.copy_(drawn);
    const at::Tensor exact = alpha.to(at::kDouble);
    const double a = seed % 4 == 0 ? 0.2 : 1.0, f = seed % 7 == 0 ? 5.0 : 0.7;
    const Bound bound = learned.bound({.activation = a, .lipschitz = a}, {.activation = f, .lipschitz = f});
    const double seen = observed_mixture(convex, exact, a, f), most = bound.lipschitz.to_double();
    EXPECT_LE(seen, most * (1.0 + 1e-12)) << seed;
    EXPECT_EQ(bound.activation, bound.lipschitz);
    const double mean = exact.mean().item<double>();
    means_exceeded += seen > (convex ? std::abs(1.0 - mean) : 1.0) * a + std::abs(mean) * f ? 1 : 0;
    tightest = std::max(tightest, seen / most);
    // Of caps nothing is known but [0, 1], and what is known may only help.
    Unknown unknown;
    Walk walk(unknown);
    const Bound capped =
        learned.residual.bound({.activation = a, .lipschitz = a}, {.activation = f, .lipschitz = f}, walk);
    if (seed % 2 == 0) {
      EXPECT_LE(most, capped.lipschitz.to_double()) << seed;
      EXPECT_LE(seen, capped.lipschitz.to_double() * (1.0 + 1e-12)) << seed;
    }
  }
  EXPECT_GT(means_exceeded, 50);
  EXPECT_GT(tightest, 0.999);
}

TEST(ResidualModule, OfAnUnknownVectorSquaresAreAdded) {
  Unknown norms;
  Walk walk(norms);
  const Bound x{.activation = 3.0, .lipschitz = 3.0}, f{.activation = 4.0, .lipschitz = 4.0};
  const Alone convex(ResidualKind::convex, 0.25, LearnedAlpha::vector);
  EXPECT_NEAR(convex.residual.bound(x, f, walk).lipschitz.to_double(), 5.0, 1e-12);
  const Alone plain(ResidualKind::plain, 0.25, LearnedAlpha::vector);
  EXPECT_EQ(plain.residual.bound(x, f, walk).lipschitz.to_double(), 7.0);
}

}  // namespace
}  // namespace bridle
