#include "train/token_noise.h"

#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

namespace bridle {
namespace {

TEST(TokenNoise, ReplacesItsShareEvenly) {
  constexpr int64_t vocabulary = 8;
  const at::Tensor tokens = at::zeros({100, 1000}, at::kLong).add_(vocabulary);  // none that is drawn
  const at::Tensor noisy = with_wrong_tokens(tokens, 0.2, vocabulary, {1, Stream::token_noise, 3});
  EXPECT_NEAR(noisy.ne(tokens).to(at::kDouble).mean().item<double>(), 0.2, 0.005);
  for (int64_t token = 0; token < vocabulary; ++token)
    EXPECT_NEAR(noisy.eq(token).to(at::kDouble).mean().item<double>(), 0.2 / vocabulary, 0.002) << token;
}

TEST(TokenNoise, IsTheSameForOneKeyAndAnotherForTheNext) {
  const at::Tensor tokens = at::zeros({4, 50}, at::kLong);
  const auto noisy = [&](uint64_t step) {
    return with_wrong_tokens(tokens, 0.5, 65, {1, Stream::token_noise, step});
  };
  EXPECT_TRUE(noisy(7).equal(noisy(7)));
  EXPECT_FALSE(noisy(7).equal(noisy(8)));
}

}  // namespace
}  // namespace bridle
