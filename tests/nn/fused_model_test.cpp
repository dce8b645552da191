#include "nn/fused_model.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <gtest/gtest.h>

#include "nn_support.h"

namespace bridle {
namespace {

FusedModel fused_of(const Model& model) {
  return {test::transformer_options(model), model.params(), step_kernels_plain()};
}

TEST(FusedModel, CutsBatchesByShapeAlone) {
  TransformerOptions options{.vocab_size = 65, .max_position_embeddings = 256};
  const auto model = make_model(options, 1);
  const FusedModel fused = fused_of(*model);
  const FusedShape usual = fused.shape_of(64, 256);
  EXPECT_EQ(usual.group, 2);
  const std::vector<int64_t> bounds = usual.bounds();
  EXPECT_EQ(bounds[1], 2);
  EXPECT_EQ(bounds[bounds.size() - 2], 63);  // the last ones are small
  EXPECT_EQ(bounds.back(), 64);
  EXPECT_EQ(usual.slots, 4);
  EXPECT_FALSE(usual.shared);
  EXPECT_EQ(fused.shape_of(16, 256).group, 2);  // enough of them to share among threads
  EXPECT_EQ(fused.shape_of(13, 100).rows, 128);
  EXPECT_TRUE(fused.shape_of(1, 4096).shared);
  EXPECT_EQ(fused.shape_of(1, 4096).slots, 1);
}

TEST(FusedModel, LargeWeightsAreSharedByAllThreads) {
  const TransformerOptions options{
      .vocab_size = 20000, .hidden_size = 512, .num_hidden_layers = 1, .max_position_embeddings = 64};
  const auto model = make_model(options, std::nullopt);
  const FusedShape shape = fused_of(*model).shape_of(100, 64);
  EXPECT_TRUE(shape.shared);
  EXPECT_EQ(shape.group, 64);
  EXPECT_EQ(shape.bounds(), (std::vector<int64_t>{0, 64, 100}));
}

TEST(FusedModel, BiasesStandByOffsetFromTheEnd) {
  TransformerOptions options = test::small_transformer();
  options.position_bias = true;
  options.position_bias_offsets = 5;
  const auto model = make_model(options, 1);
  {
    const at::NoGradGuard no_gradients;
    for (const Param& param : model->params())
      if (param.role == Role::position_bias) param.tensor.copy_(at::arange(20).view({4, 5}));
  }
  FusedModel fused = fused_of(*model);
  fused.set_length(32);
  fused.pack(Team(1));
  const float* bias = fused.bias_of(1, 2);  // head 2: 10 … 14
  EXPECT_EQ(bias[31], 10.0F);
  EXPECT_EQ(bias[28], 13.0F);
  EXPECT_EQ(bias[27], 14.0F);
  EXPECT_EQ(bias[0], 14.0F);
}

TEST(FusedModel, SupportsWhatTheRecipesTrain) {
  TransformerOptions options = test::filled_in(test::small_transformer());
  const Pass pass{.dtype = at::kBFloat16};
  EXPECT_EQ(FusedModel::why_not(options, pass), "");
  options.tie_embeddings = true;
  EXPECT_EQ(FusedModel::why_not(options, pass), "model.tie_embeddings is true");
}

}  // namespace
}  // namespace bridle
