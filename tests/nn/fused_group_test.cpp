#include "nn/fused_group.h"

#include <gtest/gtest.h>

#include <cmath>

#include "nn/transformer.h"
#include "nn_support.h"

namespace bridle {
namespace {

TEST(FusedGroup, SumsOfTwoGroupsAreThoseOfBothTogether) {
  const auto model = test::random_model(test::small_transformer());
  const auto program = dynamic_cast<const Transformer&>(*model).fused_program(step_kernels());
  const FusedShape shape{.batch = 2, .length = 8, .rows = 32, .group = 2, .shared = false, .slots = 1};
  program->set_rows(shape.rows);
  program->pack(Team(1));
  FusedGroup group(*program, shape, Team(1), true);
  const std::vector<int64_t> tokens = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 0, 1, 2, 3, 4, 5};
  const std::vector<int64_t> targets = {2, 3, 4, 5, 6, 7, 8, 9, 10, 0, 1, 2, 3, 4, 5, 6};
  FusedSums apart(*program), together(*program);
  apart.start();
  together.start();
  const Pass pass;
  const auto at = [&](size_t first) {
    return FusedInputs{.tokens = tokens.data() + first, .targets = targets.data() + first, .pass = &pass};
  };
  const auto first = group.run(at(0), 1, &apart);
  const auto second = group.run(at(8), 1, &apart);
  const auto both = group.run(at(0), 2, &together);
  EXPECT_NEAR(first.loss + second.loss, both.loss, 1e-9);
  EXPECT_EQ(first.hits + second.hits, both.hits);
  for (int place = 0; place < static_cast<int>(program->sums_infos().size()); ++place) {
    double difference = 0.0, norm = 0.0;
    for (int64_t j = 0; j < program->sums_infos()[static_cast<size_t>(place)].count; ++j) {
      const double a = apart.at({place})[j], b = together.at({place})[j];
      difference += (a - b) * (a - b);
      norm += b * b;
    }
    EXPECT_GT(norm, 0.0);
    EXPECT_LT(difference, 1e-10 * norm);
  }
  FusedGroup evaluating(*program, shape, Team(1), false);  // its memory is smaller, its loss the same
  EXPECT_EQ(evaluating.run(at(0), 2, nullptr).loss, both.loss);
}

}  // namespace
}  // namespace bridle
