#include "nn/scale.h"

#include <gtest/gtest.h>

#include "nn_support.h"
#include "support.h"

namespace bridle {
namespace {

using test::Bench;

TEST(ScaleModule, IsFixedOrLearned) {
  Bench fixed(test::small_transformer());
  const at::Tensor x = test::normal({3, 4}, 1).requires_grad_(true);
  EXPECT_TRUE(Scale(fixed.weights, "s", -2.0, /*is_learned=*/false).forward(x).equal(x.mul(-2.0)));
  EXPECT_TRUE(fixed.params.empty());
  Bench learned(test::small_transformer());
  const Scale scale(learned.weights, "s", -2.0, /*is_learned=*/true);
  ASSERT_EQ(learned.params.size(), 1U);
  EXPECT_EQ(learned.params[0].role, Role::gain);
  test::expect_gradients([&] { return scale.forward(x); }, learned.tensors(x));
  const auto norms = measured_norms();
  Walk walk(*norms);
  EXPECT_EQ(scale.bound({.activation = 3.0, .lipschitz = 5.0}, walk).lipschitz.to_double(), 10.0);
}

}  // namespace
}  // namespace bridle
