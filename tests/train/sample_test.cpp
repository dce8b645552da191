#include "bridle/error.h"
#include "bridle/run.h"
#include "train_support.h"

namespace bridle {
namespace {

using test::TemporaryData;

TEST(Sample, IsTheSameForASeedAndComesInPieces) {
  const TemporaryData data;
  const auto run = test::short_run(data);
  std::string pieces;
  const std::string text = sample(run, {.prompt = "the ", .tokens = 50, .seed = 3},
                                  [&](const std::string& piece) { pieces += piece; });
  EXPECT_EQ(text.size(), 50U);
  EXPECT_EQ(pieces, text);
  EXPECT_EQ(sample(run, {.prompt = "the ", .tokens = 50, .seed = 3}), text);
  EXPECT_NE(sample(run, {.prompt = "the ", .tokens = 50, .seed = 4}), text);
  EXPECT_EQ(sample(run, {.tokens = 40, .temperature = 0.0, .seed = 1}),
            sample(run, {.tokens = 40, .temperature = 0.0, .seed = 2}));
  EXPECT_ERROR(sample(run, {.prompt = ""}), InputError, "the prompt must have at least one character");
  EXPECT_ERROR(sample(run, {.prompt = "€"}), InputError, "U+20AC");
  EXPECT_ERROR(sample(run, {.temperature = -1.0}), InputError, "temperature must be 0 or more, got -1");
  EXPECT_ERROR(sample(run, {.top_k = -1}), InputError, "top_k must be 0 or more, got -1");
}

TEST(Sample, DrawsFromTheLikeliestTokensAlone) {
  const TemporaryData data;
  const auto run = test::short_run(data);
  const std::string likeliest = sample(run, {.tokens = 40, .temperature = 0.0});
  EXPECT_EQ(sample(run, {.tokens = 40, .temperature = 5.0, .top_k = 1}), likeliest);
  EXPECT_NE(sample(run, {.tokens = 40, .temperature = 5.0, .top_k = 3}), likeliest);
  const std::string all = sample(run, {.tokens = 40, .temperature = 1.0});
  EXPECT_EQ(sample(run, {.tokens = 40, .temperature = 1.0, .top_k = 100000}), all);
}

}  // namespace
}  // namespace bridle
