#include "nn/embedding.h"

#include <ATen/ops/arange.h>
#include <gtest/gtest.h>

#include "bridle/error.h"
#include "file_support.h"
#include "nn_support.h"
#include "support.h"

namespace bridle {
namespace {

using test::Bench;

TEST(EmbeddingModule, RowsStartAtRmsOneAndPositionsAdd) {
  TransformerOptions options = test::small_transformer();
  options.positions = PositionKind::learned;
  Bench bench(options);
  const Embedding embedding(bench.options, bench.weights);
  EXPECT_LT(embedding.table().tensor.square().mean(1).sub(1.0).abs().max().item<double>(), 1e-12);
  const at::Tensor tokens = at::arange(6, at::kLong).view({1, 6});
  test::expect_gradients([&] { return embedding.add_positions(embedding.embed(tokens, bench.pass), 0); },
                         bench.tensors({}));
  EXPECT_ERROR(embedding.add_positions(embedding.embed(at::arange(9, at::kLong).view({1, 9}), bench.pass), 0),
               InputError, "at most the 8 tokens that positions were learned for, got 9");
  const auto norms = measured_norms();
  Walk walk(*norms);
  EXPECT_NEAR(embedding.bound(1.0, walk).activation.to_double(), 2.0, 1e-9);
  EXPECT_EQ(embedding.bound(1.0, walk).lipschitz.to_double(), 1.0);
}

}  // namespace
}  // namespace bridle
