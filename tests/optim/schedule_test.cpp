#include <gtest/gtest.h>

#include <cmath>

#include "base/words.h"
#include "bridle/error.h"
#include "bridle/optim.h"
#include "file_support.h"

namespace bridle {
namespace {

TEST(Schedule, ConstantStaysAtOne) {
  for (const int64_t t : {0, 5, 9})
    EXPECT_EQ(schedule_factor({.shape = ScheduleShape::constant}, t, 10), 1.0);
}

TEST(Schedule, LinearFallsFromOneByOneNthAStep) {
  const ScheduleOptions linear{.shape = ScheduleShape::linear};
  EXPECT_EQ(schedule_factor(linear, 0, 4), 1.0);
  EXPECT_EQ(schedule_factor(linear, 1, 4), 0.75);
  EXPECT_EQ(schedule_factor(linear, 3, 4), 0.25);
  EXPECT_EQ(schedule_factor(linear, 4, 4), 0.0);
  EXPECT_EQ(schedule_factor(linear, 9, 4), 0.0);
}

TEST(Schedule, CosineIsAtHalfInTheMiddle) {
  const ScheduleOptions cosine{.shape = ScheduleShape::cosine, .final_share = 0.5};
  EXPECT_EQ(schedule_factor(cosine, 0, 8), 1.0);
  EXPECT_NEAR(schedule_factor(cosine, 2, 8), 0.75 + 0.25 * std::sqrt(0.5), 1e-15);
  EXPECT_NEAR(schedule_factor(cosine, 4, 8), 0.75, 1e-15);
  EXPECT_EQ(schedule_factor(cosine, 8, 8), 0.5);
}

TEST(Schedule, StableDecayFallsOnlyOverTheLastPart) {
  const ScheduleOptions stable{.shape = ScheduleShape::stable_decay, .decay_share = 0.5, .final_share = 0.25};
  for (const int64_t t : {0, 4, 8}) EXPECT_EQ(schedule_factor(stable, t, 16), 1.0);
  EXPECT_EQ(schedule_factor(stable, 12, 16), 0.625);
  EXPECT_EQ(schedule_factor(stable, 16, 16), 0.25);
  EXPECT_EQ(schedule_factor({.shape = ScheduleShape::stable_decay, .decay_share = 0.0}, 15, 16), 1.0);
}

TEST(Schedule, StableDecayDefaultsToTheLastFortyPercent) {
  EXPECT_EQ(schedule_factor({.shape = ScheduleShape::stable_decay}, 59, 100), 1.0);
  EXPECT_EQ(schedule_factor({.shape = ScheduleShape::stable_decay}, 60, 100), 1.0);
  EXPECT_NEAR(schedule_factor({.shape = ScheduleShape::stable_decay}, 80, 100), 0.5, 1e-15);
}

TEST(Schedule, WarmUpStartsAboveZeroReachesOneAndTheShapeGoesOnFromThere) {
  for (const ScheduleShape shape : all_values<ScheduleShape>()) {
    const ScheduleOptions options{.shape = shape, .warmup_steps = 4};
    EXPECT_EQ(schedule_factor(options, 0, 20), 0.25) << word(shape);
    EXPECT_EQ(schedule_factor(options, 2, 20), 0.75) << word(shape);
    EXPECT_EQ(schedule_factor(options, 3, 20), 1.0) << word(shape);
    EXPECT_EQ(schedule_factor(options, 4, 20), 1.0) << word(shape);
  }
  EXPECT_EQ(schedule_factor({.shape = ScheduleShape::linear, .warmup_steps = 4}, 12, 20), 0.5);
  EXPECT_EQ(schedule_factor({.shape = ScheduleShape::linear, .warmup_steps = 4}, 20, 20), 0.0);
}

TEST(Schedule, WarmUpMayBeLongerThanTheRun) {
  for (const ScheduleShape shape : {ScheduleShape::constant, ScheduleShape::linear, ScheduleShape::cosine}) {
    EXPECT_EQ(schedule_factor({.shape = shape, .warmup_steps = 8}, 3, 4), 0.5) << word(shape);
  }
  EXPECT_EQ(
      schedule_factor({.shape = ScheduleShape::stable_decay, .warmup_steps = 8, .decay_share = 0.5}, 3, 4),
      0.5);
}

TEST(Schedule, RefusesUnknownShapesAndNumbersThatMakeNoSense) {
  EXPECT_THROW(schedule_factor({}, -1, 10), InputError);
  EXPECT_THROW(schedule_factor({}, 0, 0), InputError);
  EXPECT_THROW(schedule_factor({.warmup_steps = -1}, 0, 10), InputError);
  EXPECT_THROW(schedule_factor({.decay_share = 1.5}, 0, 10), InputError);
  EXPECT_THROW(schedule_factor({.final_share = NAN}, 0, 10), InputError);
}

}  // namespace
}  // namespace bridle
