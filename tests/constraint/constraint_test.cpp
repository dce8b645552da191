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
      EXPECT_NE(message.find("it must be positive and finite"), std::string::npos) << name << " " << cap;
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
  EXPECT_NEAR(*norm("hard_cap"), 2.0, 1e-3);
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

}  // namespace
}  // namespace bridle
