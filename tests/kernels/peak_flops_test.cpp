#include "kernels/peak_flops.h"

#include <gtest/gtest.h>

#include <cmath>

namespace bridle {
namespace {

TEST(PeakFlops, AreMeasuredForBothTypes) {
  const PeakFlops peak;
  for (const double rate : {peak.bfloat16(), peak.float32()}) {
    EXPECT_TRUE(std::isfinite(rate));
    EXPECT_GT(rate, 1e6);
  }
}

}  // namespace
}  // namespace bridle
