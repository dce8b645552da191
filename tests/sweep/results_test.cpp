#include "sweep/results.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "bridle/error.h"

namespace bridle {
namespace {

std::vector<SweepEntry> entries() {
  return {
      {.key = "a-1",
       .group = "a",
       .status = SweepStatus::done,
       .step = 10,
       .steps = 10,
       .cells =
           {{"key", "a-1"}, {"status", "done"}, {"optimizer.lr", "0.1"}, {"loss", "1.5"}, {"seconds", "20"}}},
      {.key = "a-2",
       .group = "a",
       .status = SweepStatus::failed,
       .steps = 10,
       .cells = {{"key", "a-2"}, {"status", "failed"}, {"error", "a \"word\", a comma,\nand a line"}}},
      {.key = "a-3",
       .group = "a",
       .status = SweepStatus::waiting,
       .step = 4,
       .steps = 10,
       .cells = {{"key", "a-3"}}}};
}

TEST(SweepCsv, HoldsFinishedRunsAndComesBackAsItWas) {
  const auto rows = parse_csv(sweep_csv(entries()), "here");
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0], entries()[0].cells);
  EXPECT_EQ(rows[1], entries()[1].cells);
}

TEST(SweepCsv, SaysWhichLineHasAnotherNumberOfCells) {
  try {
    parse_csv("key,loss\na,1\nb\n", "results.csv");
    FAIL();
  } catch (const InputError& error) {
    EXPECT_NE(std::string(error.what()).find("results.csv, line 3"), std::string::npos) << error.what();
  }
  EXPECT_TRUE(parse_csv("", "here").empty());
  EXPECT_TRUE(parse_csv("key,loss\n\n", "here").empty());
}

TEST(SweepJson, HoldsAllRunsWithNumbersAsNumbers) {
  const auto json = nlohmann::json::parse(sweep_json(entries()));
  ASSERT_EQ(json.at("runs").size(), 3U);
  EXPECT_EQ(json.at("runs").at(0).at("loss"), 1.5);
  EXPECT_EQ(json.at("runs").at(1).at("status"), "failed");
}

TEST(SweepSecondsLeft, CountsTheStepsThatAreLeft) {
  EXPECT_DOUBLE_EQ(*sweep_seconds_left(entries(), 2), 6.0);  // 6 steps of 2 s, two workers
  EXPECT_FALSE(sweep_seconds_left({entries()[2]}, 2));
}

}  // namespace
}  // namespace bridle
