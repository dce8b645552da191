#include "nn/residual.h"

#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include "nn_support.h"
#include "support.h"

namespace bridle {
namespace {

// A residual by itself, with the weights that it may have.
struct Alone {
  Alone(ResidualKind kind, double alpha, bool is_learned = false)
      : bench(options_of(kind, is_learned)), residual(bench.options, bench.weights, "alpha", alpha) {}
  static TransformerOptions options_of(ResidualKind kind, bool is_learned) {
    TransformerOptions options = test::small_transformer();
    options.residual = kind;
    options.learned_alpha = is_learned;
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
  Alone learned(ResidualKind::convex, 0.25, true);
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

// Of caps it is known only that α lies in [0, 1].
TEST(ResidualModule, OfAnUnknownAlphaTheWorseEndCounts) {
  struct Unknown : test::NoNorms {
    std::optional<double> scalar(const Param& /*weight*/) override { return std::nullopt; }
  } norms;
  Walk walk(norms);
  const Alone learned(ResidualKind::convex, 0.25, true);
  const Bound small{.activation = 1.0, .lipschitz = 2.0}, large{.activation = 3.0, .lipschitz = 10.0};
  EXPECT_EQ(learned.residual.bound(small, large, walk), large);
  EXPECT_EQ(learned.residual.bound(large, small, walk), large);
}

}  // namespace
}  // namespace bridle
