#include <gtest/gtest.h>

#include <cmath>

#include "bridle/constraint.h"
#include "bridle/error.h"
#include "support.h"

namespace bridle {
namespace {

TEST(Enforcer, StartsFromWeightsOutsideTheSetByLoweringTheirSingularValues) {
  const Param w{
      .name = "k", .tensor = orthogonalize(test::normal({32, 32}, 1)), .role = Role::key, .blocks = 4};
  // Semi-orthogonal as a whole: each head lies a factor √4 outside the per-head set.
  EXPECT_NEAR(test::spectral_norm(w.block_view()[0]) / w.unit(), 2.0, 0.01);
  Enforcer enforcer({.method = "soft_cap"});
  enforcer.start_(w, 1.0);
  EXPECT_TRUE(prove_norm(w, 1.0));
  EXPECT_EQ(enforcer.repairs(), 0);
}

TEST(Enforcer, RepairsWhatAMethodWithoutGuaranteeLeavesAboveAndCountsIt) {
  const Param w{.name = "w", .tensor = test::normal({50, 50}, 1)};
  Enforcer enforcer({.method = "hammer"});
  enforcer.enforce_(w, 1.0, {});
  EXPECT_FALSE(prove_norm(w, 1.0));
  EXPECT_TRUE(enforcer.prove_and_repair_(w, 1.0));
  EXPECT_TRUE(prove_norm(w, 1.0));
  EXPECT_EQ(enforcer.repairs(), 1);
  EXPECT_FALSE(enforcer.prove_and_repair_(w, 1.0));
  EXPECT_EQ(enforcer.repairs(), 1);
}

// The norm after 40 small steps in one direction.
double norm_after_steps(std::optional<at::ScalarType> products) {
  const Param w{.name = "w", .tensor = orthogonalize(test::normal({64, 64}, 1)).to(at::kFloat)};
  Enforcer enforcer({.method = "soft_cap", .product_dtype = products});
  enforcer.start_(w, 1.0);
  for (int i = 0; i < 40; ++i) {
    w.tensor.add_(orthogonalize(test::normal({64, 64}, 2)).to(at::kFloat), 0.01);
    enforcer.enforce_(w, 1.0, {.learning_rate = 0.01, .update_bound = 1.0});
    enforcer.prove_and_repair_(w, 1.0);
  }
  EXPECT_EQ(enforcer.repairs(), 0);
  return test::spectral_norm(w.tensor);
}

TEST(Enforcer, CoarseProductsCostLittleOfTheCapWhereTheStepsAreSmall) {
  const double fine = norm_after_steps({});
  EXPECT_GT(fine, 0.97);
  EXPECT_NEAR(norm_after_steps(at::kBFloat16), fine, 0.003);
}

TEST(Enforcer, MethodsWithoutProductsLeaveNoRoomForThem) {
  const Param w{.name = "w", .tensor = test::normal({64, 64}, 1, at::kFloat)};
  Enforcer enforcer({.method = "normalize", .product_dtype = at::kBFloat16});
  enforcer.enforce_(w, 1.0, {.learning_rate = 0.01, .update_bound = 1.0});
  EXPECT_GT(test::spectral_norm(w.tensor), 0.9997);
  EXPECT_TRUE(prove_norm(w, 1.0));
}

TEST(Enforcer, TreatsTablesByRowsWhateverTheMethod) {
  const Param table{.name = "e", .tensor = test::normal({20, 8}, 1, at::kFloat), .role = Role::embedding};
  Enforcer enforcer({.method = "soft_cap"}, table.role);
  enforcer.start_(table, 1.0);
  EXPECT_TRUE(prove_norm(table, 1.0));
  table.tensor.mul_(3.0);
  enforcer.enforce_(table, 1.0, {.learning_rate = 0.1});
  enforcer.prove_and_repair_(table, 1.0);
  EXPECT_TRUE(prove_norm(table, 1.0));
  EXPECT_GT(table.tensor.square().mean(-1).max().item<double>(), 0.999);
  EXPECT_EQ(enforcer.repairs(), 0);
}

TEST(Enforcer, AWeightThatCannotBeRepairedIsABrokenPromise) {
  const Param w{.name = "w", .tensor = test::normal({4, 4}, 1)};
  w.tensor[1][1] = std::nan("");
  Enforcer enforcer({.method = "normalize"});
  EXPECT_THROW(enforcer.prove_and_repair_(w, 1.0), PromiseError);
  EXPECT_THROW(enforcer.start_(w, 1.0), NumericError);
}

TEST(Enforcer, RefusesAParamOfAnotherKindAndRolesWithoutANorm) {
  const Param table{.name = "e", .tensor = test::normal({20, 8}, 1), .role = Role::embedding};
  Enforcer enforcer({.method = "soft_cap"});
  EXPECT_THROW(enforcer.start_(table, 1.0), InputError);
  EXPECT_THROW(enforcer.enforce_(table, 1.0, {}), InputError);
  EXPECT_THROW(enforcer.prove_and_repair_(table, 1.0), InputError);
  EXPECT_THROW(Enforcer({.method = "soft_cap"}, Role::bias), InputError);
}

TEST(Enforcer, RowsAtTheCapNeedNoRepair) {
  for (const auto dtype : {at::kFloat, at::kDouble, at::kBFloat16}) {
    const Param table{.name = "e", .tensor = test::normal({65, 128}, 1).to(dtype), .role = Role::embedding};
    Enforcer enforcer({}, table.role);
    for (int step = 0; step < 20; ++step) {
      table.tensor.mul_(1.5);
      enforcer.enforce_(table, 1.0, {.learning_rate = 0.1});
      enforcer.prove_and_repair_(table, 1.0);
    }
    EXPECT_EQ(enforcer.repairs(), 0);
    EXPECT_GT(table.tensor.to(at::kDouble).square().mean(-1).max().item<double>(), 0.97);
  }
}

TEST(Enforcer, Float64WeightsAtTheCapNeedNoRepair) {
  const Param w{.name = "w", .tensor = test::normal({300, 300}, 1)};
  Enforcer enforcer({.method = "hard_cap_svd"});
  enforcer.start_(w, 1.0);
  for (int step = 0; step < 3; ++step) {
    w.tensor.mul_(1.1);
    enforcer.enforce_(w, 1.0, {});
    enforcer.prove_and_repair_(w, 1.0);
  }
  EXPECT_EQ(enforcer.repairs(), 0);
}

}  // namespace
}  // namespace bridle
