#include "base/stopwatch.h"

#include <gtest/gtest.h>

#include <thread>

namespace bridle {
namespace {

struct Times {
  double first = 1.0;
  double second = 0.0;
};

TEST(Timer, CountsFromItsStartOrItsLastLap) {
  Timer timer;
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  EXPECT_GE(timer.seconds(), 0.002);
  EXPECT_GE(timer.lap(), 0.002);
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  const double before = timer.seconds();
  EXPECT_GE(before, 0.002);
  timer.restart();
  EXPECT_GE(timer.seconds(), 0.0);
}

TEST(Stopwatch, AddsEachLapToItsPart) {
  Times times;
  Stopwatch watch(&times);
  watch.lap(&Times::second);
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  watch.lap(&Times::first);
  EXPECT_GE(times.first, 1.002);
  EXPECT_GE(times.second, 0.0);
}

TEST(Stopwatch, MeasuresNothingForNobody) {
  Stopwatch<Times> watch(nullptr);
  watch.lap(&Times::first);
}

}  // namespace
}  // namespace bridle
