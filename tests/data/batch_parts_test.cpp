#include "data/batch_parts.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <gtest/gtest.h>

namespace bridle {
namespace {

TEST(BatchParts, AreTheExamplesInOrderAndNoneIsEmpty) {
  const Batch batch{at::arange(35, at::kLong).view({7, 5}), at::arange(7, at::kLong)};
  for (const int64_t count : {1, 2, 3, 7, 100}) {
    const std::vector<Batch> parts = batch_parts(batch, count);
    EXPECT_EQ(static_cast<int64_t>(parts.size()), std::min<int64_t>(count, 7));
    std::vector<at::Tensor> inputs, targets;
    for (const Batch& part : parts) {
      EXPECT_GT(part.inputs.size(0), 0);
      EXPECT_LE(part.inputs.size(0), 7 / static_cast<int64_t>(parts.size()) + 1);
      inputs.push_back(part.inputs);
      targets.push_back(part.targets);
    }
    EXPECT_TRUE(at::cat(inputs).equal(batch.inputs));
    EXPECT_TRUE(at::cat(targets).equal(batch.targets));
  }
}

}  // namespace
}  // namespace bridle
