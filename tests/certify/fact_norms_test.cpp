#include "certify/fact_norms.h"

#include <gtest/gtest.h>

#include "bridle/error.h"
#include "file_support.h"
#include "support.h"

namespace bridle {
namespace {

Param weight(const std::string& name, const at::Tensor& values) { return {.name = name, .tensor = values}; }

TEST(RecordedNorms, AreWhatIsAnsweredAndCanBeProvedAgain) {
  RecordingNorms recording;
  const Param w = weight("w", test::normal({12, 16}, 1, at::kFloat));
  const UpperBound norm = recording.matrix(w);
  const auto heads = recording.heads(w, 4);
  const double exact = test::spectral_norm(w.tensor);
  EXPECT_GT(norm.to_double(), exact);
  EXPECT_LT(norm.to_double(), exact * (1 + 1e-7));
  ASSERT_EQ(recording.facts().size(), 1U);
  EXPECT_EQ(recording.facts()[0].numbers.at("norm")[0], norm.to_double());
  EXPECT_EQ(recording.facts()[0].method, "cholesky");

  StatedNorms stated(recording.facts());
  EXPECT_EQ(stated.matrix(w), norm);
  EXPECT_EQ(stated.heads(w, 4), heads);
  EXPECT_TRUE(stated.loose().empty());
  EXPECT_ERROR(stated.heads(w, 2), PromiseError, "heads of w has 4 numbers");
  EXPECT_ERROR(stated.largest_entry(w), PromiseError, "largest_entry of w is not stated");
  EXPECT_ERROR(stated.matrix(weight("w", test::normal({12, 8}, 1, at::kFloat))), PromiseError,
               "another shape");
}

TEST(StatedNorms, TakeOnlyScalesThatMakeExactProducts) {
  const Param value = weight("v", test::normal({4, 4}, 1, at::kFloat));
  const Param output = weight("o", test::normal({4, 4}, 2, at::kFloat));
  const NormSource::Price none = [](const std::vector<double>&) { return 0.0; };
  std::vector<WeightFacts> facts{{.name = "o", .shape = {4, 4}, .method = "cholesky", .scales = {0.5, 2.0}}};
  EXPECT_EQ(StatedNorms(facts).head_scales(value, output, 2, none), facts[0].scales);
  EXPECT_ERROR(StatedNorms(facts).head_scales(value, output, 4, none), PromiseError, "2 scales for 4 heads");
  for (const double bad : {0.0, -1.0, 0.1}) {
    facts[0].scales = {1.0, bad};
    EXPECT_ERROR(StatedNorms(facts).head_scales(value, output, 2, none), PromiseError,
                 "not a positive float32 number");
  }
}

}  // namespace
}  // namespace bridle
