#include <gtest/gtest.h>

#include <cmath>
#include <memory>

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
  Enforcer enforcer(w, {.method = "soft_cap"}, 1.0);
  enforcer.start_();
  EXPECT_TRUE(prove_norm(w, 1.0));
  EXPECT_EQ(enforcer.repairs(), 0);
}

TEST(Enforcer, RepairsWhatAMethodWithoutGuaranteeLeavesAboveAndCountsIt) {
  const Param w{.name = "w", .tensor = test::normal({50, 50}, 1)};
  Enforcer enforcer(w, {.method = "hammer"}, 1.0);
  enforcer.enforce_({});
  EXPECT_FALSE(prove_norm(w, 1.0));
  EXPECT_TRUE(enforcer.prove_and_repair_());
  EXPECT_TRUE(prove_norm(w, 1.0));
  EXPECT_EQ(enforcer.repairs(), 1);
  EXPECT_FALSE(enforcer.prove_and_repair_());
  EXPECT_EQ(enforcer.repairs(), 1);
}

// The norm after 40 small steps in one direction.
double norm_after_steps(std::optional<at::ScalarType> products) {
  const Param w{.name = "w", .tensor = orthogonalize(test::normal({64, 64}, 1)).to(at::kFloat)};
  Enforcer enforcer(w, {.method = "soft_cap", .product_dtype = products}, 1.0);
  enforcer.start_();
  for (int i = 0; i < 40; ++i) {
    w.tensor.add_(orthogonalize(test::normal({64, 64}, 2)).to(at::kFloat), 0.01);
    enforcer.enforce_({.learning_rate = 0.01, .update_bound = 1.0});
    enforcer.prove_and_repair_();
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
  Enforcer enforcer(w, {.method = "normalize", .product_dtype = at::kBFloat16}, 1.0);
  enforcer.enforce_({.learning_rate = 0.01, .update_bound = 1.0});
  EXPECT_GT(test::spectral_norm(w.tensor), 0.9997);
  EXPECT_TRUE(prove_norm(w, 1.0));
}

TEST(Enforcer, TreatsTablesByRowsWhateverTheMethod) {
  const Param table{.name = "e", .tensor = test::normal({20, 8}, 1, at::kFloat), .role = Role::embedding};
  Enforcer enforcer(table, {.method = "soft_cap"}, 1.0);
  enforcer.start_();
  EXPECT_TRUE(prove_norm(table, 1.0));
  table.tensor.mul_(3.0);
  enforcer.enforce_({.learning_rate = 0.1});
  enforcer.prove_and_repair_();
  EXPECT_TRUE(prove_norm(table, 1.0));
  EXPECT_GT(table.tensor.square().mean(-1).max().item<double>(), 0.999);
  EXPECT_EQ(enforcer.repairs(), 0);
}

TEST(Enforcer, AWeightThatCannotBeRepairedIsABrokenPromise) {
  const Param w{.name = "w", .tensor = test::normal({4, 4}, 1)};
  w.tensor[1][1] = std::nan("");
  Enforcer enforcer(w, {.method = "normalize"}, 1.0);
  EXPECT_THROW(enforcer.prove_and_repair_(), PromiseError);
  EXPECT_THROW(enforcer.start_(), NumericError);
}

TEST(Enforcer, RefusesRolesWithoutANormAndCapsThatAreNone) {
  const Param bias{.name = "b", .tensor = test::normal({8}, 1), .role = Role::bias};
  EXPECT_THROW(Enforcer(bias, {.method = "soft_cap"}, 1.0), InputError);
  const Param w{.name = "w", .tensor = test::normal({4, 4}, 1)};
  EXPECT_THROW(Enforcer(w, std::unique_ptr<Constraint>(), 1.0), InputError);
  Enforcer enforcer(w, {.method = "soft_cap"}, 1.0);
  for (const double cap : {0.0, -1.0, HUGE_VAL, std::nan("")}) {
    EXPECT_THROW(Enforcer(w, {.method = "soft_cap"}, cap), InputError);
    EXPECT_THROW(enforcer.set_cap(cap), InputError);
    EXPECT_EQ(enforcer.cap(), 1.0);
  }
  EXPECT_NO_THROW(Enforcer(w, {.method = "none"}, 0.0));  // it does not look at the cap
}

TEST(Enforcer, HoldsTheCapThatIsInForce) {
  const Param w{.name = "w", .tensor = test::normal({16, 16}, 1, at::kFloat)};
  Enforcer enforcer(w, {.method = "hard_cap_svd"}, 2.0);
  enforcer.start_();
  EXPECT_TRUE(prove_norm(w, 2.0));
  EXPECT_GT(test::spectral_norm(w.tensor), 1.99);
  enforcer.set_cap(0.5);
  EXPECT_EQ(enforcer.guarantee({}).norm, 0.5);
  EXPECT_FALSE(enforcer.prove());
  enforcer.enforce_({});
  EXPECT_TRUE(enforcer.prove());
  EXPECT_GT(test::spectral_norm(w.tensor), 0.499);
}

// A user's own method: scales a weight by its Frobenius norm, which is never below the spectral norm.
class FrobeniusCap : public Constraint {
 public:
  explicit FrobeniusCap(double room) : room_(room) {}
  const char* name() const override { return "frobenius_cap"; }
  Tensor state() const override { return applied_; }

 protected:
  Tensor project(const Task& task) override {
    applied_ = applied_.defined() ? applied_.add(1.0) : task.weight.new_ones({1});
    const Tensor norm = task.weight.square().sum({-2, -1}, /*keepdim=*/true).sqrt();
    return task.weight.mul(norm.reciprocal().mul(room_ * task.cap).clamp_max(1.0));
  }
  Guarantee promise(const Param&, double sigma_max, const StepInfo&) const override {
    return {room_ * sigma_max, "the Frobenius norm is at least the spectral norm"};
  }

 private:
  double room_;
  Tensor applied_;
};

TEST(Enforcer, TakesAConstraintOfTheUsersOwn) {
  const Param w{.name = "w", .tensor = test::normal({24, 12}, 1, at::kFloat), .role = Role::key, .blocks = 3};
  Enforcer enforcer(w, std::make_unique<FrobeniusCap>(1.0), 2.0);
  enforcer.start_();
  for (int step = 0; step < 5; ++step) {
    w.tensor.mul_(3.0);
    enforcer.enforce_({.learning_rate = 0.1});
    EXPECT_FALSE(enforcer.prove_and_repair_());
    EXPECT_TRUE(prove_norm(w, 2.0));
  }
  for (const Tensor& block : w.block_view().unbind(0))
    EXPECT_NEAR(block.square().sum().sqrt().item<double>() / w.unit(), 2.0, 1e-3);
  EXPECT_EQ(enforcer.constraint().state().item<double>(), 5.0);
}

TEST(Enforcer, RepairsWhatAUsersConstraintPromisesWrongly) {
  const Param w{.name = "w", .tensor = test::normal({12, 12}, 1, at::kFloat)};
  Enforcer enforcer(w, std::make_unique<FrobeniusCap>(10.0), 1.0);
  enforcer.enforce_({});
  EXPECT_FALSE(enforcer.prove());
  EXPECT_TRUE(enforcer.prove_and_repair_());
  EXPECT_TRUE(prove_norm(w, 1.0));
  EXPECT_EQ(enforcer.repairs(), 1);
}

TEST(Enforcer, RowsAtTheCapNeedNoRepair) {
  for (const auto dtype : {at::kFloat, at::kDouble, at::kBFloat16}) {
    const Param table{.name = "e", .tensor = test::normal({65, 128}, 1).to(dtype), .role = Role::embedding};
    Enforcer enforcer(table, ConstraintOptions{}, 1.0);
    for (int step = 0; step < 20; ++step) {
      table.tensor.mul_(1.5);
      enforcer.enforce_({.learning_rate = 0.1});
      enforcer.prove_and_repair_();
    }
    EXPECT_EQ(enforcer.repairs(), 0);
    EXPECT_GT(table.tensor.to(at::kDouble).square().mean(-1).max().item<double>(), 0.97);
  }
}

TEST(Enforcer, Float64WeightsAtTheCapNeedNoRepair) {
  const Param w{.name = "w", .tensor = test::normal({300, 300}, 1)};
  Enforcer enforcer(w, {.method = "hard_cap_svd"}, 1.0);
  enforcer.start_();
  for (int step = 0; step < 3; ++step) {
    w.tensor.mul_(1.1);
    enforcer.enforce_({});
    enforcer.prove_and_repair_();
  }
  EXPECT_EQ(enforcer.repairs(), 0);
}

}  // namespace
}  // namespace bridle
