#include "nn/residual.h"

#include <gtest/gtest.h>

#include "nn_support.h"
#include "support.h"

namespace bridle {
namespace {

TEST(ResidualModule, MixesOrAdds) {
  const at::Tensor x = test::normal({3, 4}, 1).requires_grad_(true);
  const at::Tensor y = test::normal({3, 4}, 2).requires_grad_(true);
  EXPECT_TRUE(Residual(ResidualKind::convex, 0.25).forward(x, y).allclose(x.mul(0.75).add(y.mul(0.25))));
  EXPECT_TRUE(Residual(ResidualKind::plain, 0.25).forward(x, y).equal(x.add(y)));
  test::expect_gradients([&] { return Residual(ResidualKind::convex, 0.25).forward(x, y); }, {x, y});
}

TEST(ResidualModule, BoundIsTheSameMixtureRoundedUp) {
  const Bound x{.activation = 1.0, .lipschitz = 2.0};
  const Bound f{.activation = 3.0, .lipschitz = 10.0};
  const Bound convex = Residual(ResidualKind::convex, 0.1).bound(x, f);
  EXPECT_GT(convex.lipschitz.to_double(), 0.9 * 2.0 + 0.1 * 10.0);
  EXPECT_NEAR(convex.lipschitz.to_double(), 2.8, 1e-14);
  EXPECT_NEAR(convex.activation.to_double(), 1.2, 1e-14);
  EXPECT_EQ(Residual(ResidualKind::plain, 0.1).bound(x, f).lipschitz.to_double(), 12.0);
  EXPECT_NEAR(Residual(ResidualKind::convex, 1.5).bound(x, f).lipschitz.to_double(), 0.5 * 2.0 + 1.5 * 10.0,
              1e-12);  // |1 − α|
}

}  // namespace
}  // namespace bridle
