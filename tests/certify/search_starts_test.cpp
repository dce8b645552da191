#include "certify/search_starts.h"

#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <cmath>

#include "nn_support.h"
#include "support.h"

namespace bridle {
namespace {

TEST(SearchStarts, LieInTheBallWithOneTokenOnItsSurface) {
  const auto transformer = make_model(test::small_transformer(), 1);
  const auto mlp = make_model(MlpOptions{.layer_sizes = {12, 5}}, 1);
  const SearchOptions options{.domain = 1.5, .sequence_length = 5, .starts = 9};
  const at::Tensor tokens = search_starts(*transformer, options);
  const at::Tensor pixels = search_starts(*mlp, options);
  EXPECT_EQ(tokens.sizes(), at::IntArrayRef({9, 5, 16}));
  EXPECT_EQ(pixels.sizes(), at::IntArrayRef({9, 12}));
  EXPECT_EQ(tokens.scalar_type(), at::kDouble);
  for (int64_t i = 0; i < 9; ++i) {
    EXPECT_NEAR(test::largest_rms(tokens[i]), 1.5, 1e-12);
    EXPECT_NEAR(test::largest_rms(pixels[i]), 1.5, 1e-12);
  }
}

TEST(SearchStarts, WorkForOneTokenAndForZeroWeights) {
  const auto model = make_model(test::small_transformer(), std::nullopt);
  const at::Tensor starts = search_starts(*model, {.sequence_length = 1, .starts = 4});
  EXPECT_EQ(starts.sizes(), at::IntArrayRef({4, 1, 16}));
  EXPECT_TRUE(std::isfinite(starts.sum().item<double>()));
}

// It has no heads whose content could count: random starts have to do.
TEST(SearchStarts, WorkForAModelThatReadsByPositionAlone) {
  TransformerOptions options = test::small_transformer();
  options.mixing = MixingKind::quadrature;
  options.positions = PositionKind::none;
  options.hidden_size = 32;
  const at::Tensor starts =
      search_starts(*make_model(options, 1), {.domain = 1.5, .sequence_length = 3, .starts = 5});
  EXPECT_EQ(starts.sizes(), at::IntArrayRef({5, 3, 32}));
  for (int64_t i = 0; i < 5; ++i) EXPECT_NEAR(test::largest_rms(starts[i]), 1.5, 1e-12);
}

// The head whose content counts for most is in the second layer: its keys and values read coordinate 3, its query 7.
TEST(SearchStarts, BeginWithTheHeadWhoseContentCountsForMost) {
  const auto model = make_model(test::small_transformer(), 1);
  {
    const at::NoGradGuard no_gradients;
    for (const Param& param : model->params()) {
      if (!param.name.starts_with("model.layers.1.self_attn")) continue;
      if (param.role == Role::key || param.role == Role::value) param.tensor[9][3] = 10.0;
      if (param.role == Role::query) param.tensor[9][7] = 10.0;
    }
  }
  const at::Tensor start = search_starts(*model, {.sequence_length = 4, .starts = 1})[0];
  const double all = 4.0 * 0.9;  // of √d, the rest is noise
  EXPECT_GT(std::abs(start[0][3].item<double>()), all);
  EXPECT_LT(start[0][3].item<double>() * start[1][3].item<double>(), -all * all);
  EXPECT_GT(std::abs(start[3][7].item<double>()), all);
}

}  // namespace
}  // namespace bridle
