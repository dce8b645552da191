#include "bridle/constraint.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "bridle/error.h"
#include "support.h"

namespace bridle {
namespace {

const StepInfo kMuonStep{.learning_rate = 0.1, .update_bound = 1.0};
const StepInfo kAdamStep{.learning_rate = 0.1};

std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(MakeConstraint, KnowsEveryMethodByItsOwnNameAndThePapers) {
  for (const std::string& name : constraint_names())
    EXPECT_EQ(make_constraint({.method = name})->name(), name);
  const std::pair<const char*, const char*> papers[] = {{"soft_cap", "soft_cap"},
                                                        {"hard_cap", "hard_cap"},
                                                        {"spec_normalize", "normalize_estimate"},
                                                        {"spec_hammer", "hammer"},
                                                        {"none", "none"},
                                                        {"spec_wd", "spectral_weight_decay"},
                                                        {"orthogonal", "stiefel"},
                                                        {"pure_svd", "hard_cap_svd"}};
  for (const auto& [theirs, ours] : papers) EXPECT_STREQ(make_constraint({.method = theirs})->name(), ours);
}

TEST(MakeConstraint, SuggestsTheNearestNameForAnUnknownOne) {
  const std::string message = message_of([] { make_constraint({.method = "softcap"}); });
  EXPECT_NE(message.find("no method 'softcap'; did you mean 'soft_cap'?"), std::string::npos) << message;
}

TEST(Constraint, RefusesACapThatIsNotPositive) {
  const Param w{.name = "w", .tensor = test::normal({4, 4}, 1)};
  for (const std::string& name : constraint_names()) {
    const auto constraint = make_constraint({.method = name});
    if (!constraint->uses_cap()) continue;
    for (const double cap : {0.0, -1.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
      const std::string message = message_of([&] { constraint->apply_(w, cap, kMuonStep); });
      EXPECT_NE(message.find("must be positive and finite"), std::string::npos) << name << " " << cap;
    }
  }
}

TEST(Constraint, RefusesNaNWeightsAndLeavesThemAlone) {
  for (const std::string& name : constraint_names()) {
    const Tensor tensor = test::normal({4, 4}, 1);
    tensor[0][0] = std::nan("");
    const Tensor before = tensor.clone();
    EXPECT_THROW(make_constraint({.method = name})->apply_({.name = "w", .tensor = tensor}, 1.0, kMuonStep),
                 NumericError);
    EXPECT_TRUE(tensor.allclose(before, 0, 0, /*equal_nan=*/true));
  }
}

TEST(Constraint, CapsThatNeedAnUpdateBoundRefuseAdamW) {
  for (const std::string& name : constraint_names()) {
    const auto constraint = make_constraint({.method = name});
    const Param w{.name = "w", .tensor = test::normal({4, 6}, 1)};
    const std::string message = message_of([&] { constraint->apply_(w, 1.0, kAdamStep); });
    const bool refuses = name == "soft_cap" || name == "hard_cap" || name == "hard_cap_polynomial";
    EXPECT_EQ(message.find("AdamW") != std::string::npos, refuses) << name << ": " << message;
  }
}

TEST(Constraint, ActsOnEachRowBlockForItself) {
  for (const std::string& name : constraint_names()) {
    for (const auto dtype : {at::kFloat, at::kDouble}) {
      const Tensor whole = test::normal({12, 9}, 2).mul(0.2).to(dtype);
      const Tensor together = whole.clone();
      const Param param{.name = "w", .tensor = together, .blocks = 3};
      make_constraint({.method = name})->apply_(param, 1.0, kMuonStep);
      for (int64_t h = 0; h < 3; ++h) {
        const Param alone{.name = "h", .tensor = whole.narrow(0, 4 * h, 4).clone()};
        make_constraint({.method = name})->apply_(alone, 1.0, kMuonStep);
        EXPECT_LT(test::largest_difference(alone.tensor, together.narrow(0, 4 * h, 4)), 2e-5) << name;
      }
    }
  }
}

TEST(Constraint, WorksInPlaceOnAViewOfAFusedMatrix) {
  const Tensor fused = test::normal({24, 8}, 3);
  const Tensor before = fused.clone();
  const Param key{.name = "k", .tensor = fused.narrow(0, 8, 8), .role = Role::key, .blocks = 2};
  make_constraint({.method = "hard_cap_svd"})->apply_(key, 0.5, kMuonStep);
  EXPECT_TRUE(fused.narrow(0, 0, 8).equal(before.narrow(0, 0, 8)));
  EXPECT_TRUE(fused.narrow(0, 16, 8).equal(before.narrow(0, 16, 8)));
  EXPECT_NEAR(test::spectral_norm(fused.narrow(0, 8, 4)), 0.5 * std::sqrt(0.5), 1e-12);
}

TEST(Constraint, TheNormIsRmsToRms) {
  // 8×2: RMS→RMS norm 1 is spectral norm 2.
  const Param w{.name = "w", .tensor = test::normal({8, 2}, 4).mul(50.0)};
  make_constraint({.method = "normalize"})->apply_(w, 3.0, kAdamStep);
  EXPECT_NEAR(test::spectral_norm(w.tensor), 6.0, 6e-4);
  EXPECT_LE(test::spectral_norm(w.tensor), 6.0);
}

TEST(Guarantee, SaysForEveryMethodWhetherItHolds) {
  const Param w{.name = "w", .tensor = test::normal({16, 16}, 1)};
  const StepInfo step{.learning_rate = 0.1, .decay = 0.2, .update_bound = 1.0};
  const auto norm = [&](const char* name) {
    return make_constraint({.method = name})->guarantee(w, 2.0, step).norm;
  };
  EXPECT_EQ(norm("none"), std::nullopt);
  EXPECT_DOUBLE_EQ(*norm("weight_decay"), 5.0);
  EXPECT_EQ(norm("spectral_weight_decay"), std::nullopt);
  EXPECT_EQ(norm("normalize"), 2.0);
  EXPECT_EQ(norm("normalize_estimate"), std::nullopt);
  EXPECT_EQ(norm("stiefel"), 2.0);
  EXPECT_EQ(norm("hammer"), std::nullopt);
  EXPECT_EQ(norm("soft_cap"), 2.0);
  EXPECT_EQ(norm("hard_cap"), 2.0);
  EXPECT_DOUBLE_EQ(*norm("hard_cap_polynomial"), 2.0 * 1.0109);
  EXPECT_EQ(norm("hard_cap_svd"), 2.0);
  EXPECT_EQ(norm("clip"), std::nullopt);
  EXPECT_GT(*norm("clipped_weight_decay"), 2.0);
  EXPECT_GT(*norm("parseval"), 2.0);
  for (const std::string& name : constraint_names()) {
    EXPECT_FALSE(make_constraint({.method = name})->guarantee(w, 2.0, step).reason.empty());
  }
}

TEST(Guarantee, CouplingMethodsGuaranteeNothingWithoutAnUpdateBound) {
  const Param w{.name = "w", .tensor = test::normal({16, 16}, 1)};
  for (const char* name :
       {"weight_decay", "soft_cap", "hard_cap", "hard_cap_polynomial", "clipped_weight_decay", "parseval"}) {
    EXPECT_EQ(make_constraint({.method = name})->guarantee(w, 2.0, kAdamStep).norm, std::nullopt) << name;
  }
}

TEST(Constraint, RefusesStepsThatMakeNoSense) {
  const double infinity = std::numeric_limits<double>::infinity();
  const StepInfo bad[] = {{.learning_rate = std::nan(""), .update_bound = 1.0},
                          {.learning_rate = infinity, .update_bound = 1.0},
                          {.learning_rate = -0.1, .update_bound = 1.0},
                          {.decay = std::nan(""), .update_bound = 1.0},
                          {.decay = -1.0, .update_bound = 1.0},
                          {.learning_rate = 0.1, .update_bound = std::nan("")}};
  for (const StepInfo& step : bad) {
    const Param w{.name = "w", .tensor = test::normal({4, 4}, 1)};
    const Tensor before = w.tensor.clone();
    EXPECT_THROW(make_constraint({.method = "soft_cap"})->apply_(w, 1.0, step), InputError);
    EXPECT_THROW(make_constraint({.method = "soft_cap"})->guarantee(w, 1.0, step), InputError);
    EXPECT_TRUE(w.tensor.equal(before));
  }
}

TEST(Constraint, AProjectionThatOverflowsLeavesTheWeightAlone) {
  // Far outside its cap, where no step from inside could have taken it.
  for (const char* method : {"parseval", "soft_cap", "hard_cap_polynomial"}) {
    const Param w{.name = "w", .tensor = test::normal({6, 6}, 1).mul(1e20).to(at::kFloat)};
    const Tensor before = w.tensor.clone();
    EXPECT_THROW(make_constraint({.method = method})->apply_(w, 1.0, kMuonStep), NumericError) << method;
    EXPECT_TRUE(w.tensor.equal(before));
  }
}

TEST(Constraint, EveryPairOfWeightAndProductTypesWorks) {
  for (const auto weight : {at::kFloat, at::kDouble, at::kBFloat16}) {
    for (const auto products : {at::kFloat, at::kDouble, at::kBFloat16}) {
      for (const std::string& name : constraint_names()) {
        for (const auto& [m, n] : {std::pair<int64_t, int64_t>{8, 8}, {4, 40}}) {
          const Tensor random = test::normal({m, n}, 1);
          const double reach = 1.1 * std::sqrt(static_cast<double>(m) / static_cast<double>(n));
          const Tensor start = random.mul(reach / test::spectral_norm(random)).to(weight);
          const Param mixed{.name = "w", .tensor = start.clone()},
              plain{.name = "w", .tensor = start.to(at::kDouble)};
          make_constraint({.method = name, .product_dtype = products})->apply_(mixed, 1.0, kMuonStep);
          make_constraint({.method = name})->apply_(plain, 1.0, kMuonStep);
          EXPECT_EQ(mixed.tensor.scalar_type(), weight);
          const bool narrow = weight == at::kBFloat16 || products == at::kBFloat16;
          // hard_cap takes another form where products are not in the weight's type; their excesses differ by half.
          const double wide = name == "hard_cap" ? 6e-5 : 2e-5;
          EXPECT_LT(test::largest_difference(mixed.tensor, plain.tensor), narrow ? 0.06 : wide) << name;
        }
      }
    }
  }
}

TEST(Constraint, TakesAWeightThatRequiresGradients) {
  const Param w{.name = "w", .tensor = test::normal({6, 6}, 1).requires_grad_()};
  Enforcer enforcer(w, {.method = "soft_cap"}, 1.0);
  enforcer.start_();
  enforcer.enforce_(kMuonStep);
  enforcer.prove_and_repair_();
  EXPECT_TRUE(w.tensor.requires_grad());
  EXPECT_TRUE(w.tensor.is_leaf());
  EXPECT_TRUE(prove_norm(w, 1.0));
}

TEST(Guarantee, RefusesACapThatIsNotPositive) {
  const Param w{.name = "w", .tensor = test::normal({4, 4}, 1)};
  for (const char* name : {"soft_cap", "hard_cap", "parseval", "clipped_weight_decay"}) {
    EXPECT_THROW(make_constraint({.method = name})->guarantee(w, 0.0, kMuonStep), InputError);
  }
}

}  // namespace
}  // namespace bridle
