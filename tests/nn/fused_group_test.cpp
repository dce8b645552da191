#include "nn/fused_group.h"

#include <gtest/gtest.h>

#include <cmath>

#include "nn_support.h"

namespace bridle {
namespace {

TEST(FusedGroup, SumsOfTwoGroupsAreThoseOfBothTogether) {
  const auto model = test::random_model(test::small_transformer());
  FusedModel fused(test::transformer_options(*model), model->params(), step_kernels());
  const FusedShape shape{.batch = 2, .length = 8, .rows = 32, .group = 2, .shared = false, .slots = 1};
  fused.set_length(shape.rows);
  fused.pack(Team(1));
  FusedGroup group(fused, shape, Team(1));
  const std::vector<int64_t> tokens = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 0, 1, 2, 3, 4, 5};
  const std::vector<int64_t> targets = {2, 3, 4, 5, 6, 7, 8, 9, 10, 0, 1, 2, 3, 4, 5, 6};
  FusedSums apart(fused, shape.rows), together(fused, shape.rows);
  apart.start(fused);
  together.start(fused);
  const auto first = group.forward_and_backward(tokens.data(), targets.data(), 1, apart);
  const auto second = group.forward_and_backward(tokens.data() + 8, targets.data() + 8, 1, apart);
  const auto both = group.forward_and_backward(tokens.data(), targets.data(), 2, together);
  EXPECT_NEAR(first.loss + second.loss, both.loss, 1e-9);
  EXPECT_EQ(first.hits + second.hits, both.hits);
  for (size_t i = 0; i < apart.matrices.size(); ++i) {
    const int64_t size = fused.weights()[i]->sums();
    double difference = 0.0, norm = 0.0;
    for (int64_t j = 0; j < size; ++j) {
      difference += std::pow(
          static_cast<double>(apart.matrices[i][j]) - static_cast<double>(together.matrices[i][j]), 2);
      norm += std::pow(static_cast<double>(together.matrices[i][j]), 2);
    }
    EXPECT_GT(norm, 0.0);
    EXPECT_LT(difference, 1e-10 * norm);
  }
}

}  // namespace
}  // namespace bridle
