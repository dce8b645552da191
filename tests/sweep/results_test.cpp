#include "sweep/results.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/files.h"
#include "bridle/error.h"
#include "file_support.h"

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
    parse_csv("key,status\na,done\nb\n", "results.csv");
    FAIL();
  } catch (const InputError& error) {
    EXPECT_NE(std::string(error.what()).find("results.csv, line 3"), std::string::npos) << error.what();
  }
  EXPECT_TRUE(parse_csv("key,status\n\n", "here").empty());
  for (const char* text : {"", "key;status\na;done\n", "name,loss\na,1\n"})
    EXPECT_THROW(parse_csv(text, "here"), InputError) << text;
}

TEST(SweepCsv, IsRefusedWithTheLineOfWhatIsWrong) {
  const std::string head = "key,status,optimizer.lr,loss,error\na,done,0.1,1.5,\n";
  const auto refused = [&head](const std::string& rest, const std::string& part) {
    EXPECT_ERROR(parse_csv(head + rest, "r.csv"), InputError, part);
  };
  refused("b,done,0.1,fast,\n", "[sweep] r.csv, line 3: loss must be a number, got 'fast'");
  refused("b,done,0.1,1.5x,\n", "loss must be a number, got '1.5x'");
  refused("b,done,0.1,nan,\n", "loss must be a number, got 'nan'");
  refused("b,done,0.1,1,\na,failed,,,\n", "r.csv, line 4: the key 'a' stands in line 2 already");
  refused("b,finished,0.1,1,\n", "line 3: status must be done, diverged or failed, got 'finished'");
  refused("b,,0.1,1,\n", "line 3: status must be done, diverged or failed, got ''");
  refused(",done,0.1,1,\n", "line 3: it has no key");
  refused("b,failed,,,\"of\nthree\nlines\"\nc,done,,x,\n", "r.csv, line 6: loss must be a number");
  refused("b,failed,,,\"open\n", "line 3: a quote is not closed");
  EXPECT_ERROR(parse_csv("key,status,loss,loss\n", "r.csv"), InputError, "names 'loss' twice");
  EXPECT_EQ(parse_csv(head + "b,diverged,,,\nc,done,fast,-inf,\n", "r.csv").size(), 3U);
}

// Those of the committed experiments.
TEST(SweepCsv, OfEveryExperimentIsRead) {
  int count = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(BRIDLE_EXPERIMENTS)) {
    std::filesystem::path sweep = entry.path();
    if (entry.path().extension() != ".csv" || !std::filesystem::exists(sweep.replace_extension(".toml")))
      continue;
    EXPECT_FALSE(parse_csv(read_file(entry.path()), entry.path().string()).empty());
    ++count;
  }
  EXPECT_GE(count, 10);
}

TEST(SweepJson, HoldsAllRunsWithNumbersAsNumbers) {
  const auto json = nlohmann::json::parse(sweep_json(entries()));
  ASSERT_EQ(json.at("runs").size(), 3U);
  EXPECT_EQ(json.at("runs").at(0).at("loss"), 1.5);
  EXPECT_EQ(json.at("runs").at(1).at("status"), "failed");
}

TEST(SweepSecondsLeft, CountsTheStepsThatAreLeft) {
  EXPECT_DOUBLE_EQ(*sweep_seconds_left(entries(), 2),
                   12.0);  // 6 steps of 2 s of one run, whatever the workers
  auto more = entries();
  more.push_back(more.back());
  EXPECT_DOUBLE_EQ(*sweep_seconds_left(more, 2), 12.0);
  EXPECT_DOUBLE_EQ(*sweep_seconds_left(more, 1), 24.0);
  more.push_back(
      {.key = "b-1", .group = "b", .status = SweepStatus::done, .steps = 10, .cells = {{"seconds", "100"}}});
  EXPECT_DOUBLE_EQ(*sweep_seconds_left(more, 2), 12.0);  // another group's pace is its own
  more[0].cells["seconds"] = "soon";
  EXPECT_DOUBLE_EQ(*sweep_seconds_left(more, 2), 60.0);
  EXPECT_FALSE(sweep_seconds_left({entries()[2]}, 2));
}

}  // namespace
}  // namespace bridle
