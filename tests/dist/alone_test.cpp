#include <gtest/gtest.h>

#include "bridle/ranks.h"

namespace bridle {
namespace {

TEST(Alone, LeadsAndWaitsForNobody) {
  const auto ranks = alone();
  EXPECT_EQ(ranks->rank(), 0);
  EXPECT_EQ(ranks->size(), 1);
  EXPECT_TRUE(ranks->leads());
  ranks->exchange({at::Tensor()}, {at::Tensor()});
  ranks->fail("nothing hears it");
  ranks->leave();
}

}  // namespace
}  // namespace bridle
