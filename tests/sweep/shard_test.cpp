#include "sweep/shard.h"

#include <gtest/gtest.h>

#include <set>

#include "base/files.h"
#include "bridle/error.h"
#include "bridle/sweep.h"
#include "file_support.h"

namespace bridle {
namespace {

Sweep seven_runs(const std::filesystem::path& folder) {
  Sweep sweep{.file = folder / "s.toml", .folder = folder / "work", .results = folder / "s.csv", .runs = {}};
  for (int i = 0; i < 7; ++i) sweep.runs.push_back({.key = "g-" + std::to_string(i), .group = "g"});
  return sweep;
}

TEST(Shard, TogetherHaveEveryRunOnce) {
  const test::TemporaryFolder folder;
  for (const int64_t count : {1, 2, 3, 10}) {
    std::multiset<std::string> keys;
    std::set<std::filesystem::path> folders;
    for (int64_t number = 1; number <= count; ++number) {
      const Sweep shard = shard_of(seven_runs(folder / ""), number, count);
      for (const SweepRun& run : shard.runs) keys.insert(run.key);
      folders.insert(shard.folder);
    }
    EXPECT_EQ(keys.size(), 7U);
    EXPECT_EQ(std::set<std::string>(keys.begin(), keys.end()).size(), 7U);
    EXPECT_EQ(std::ssize(folders), count);
  }
  EXPECT_EQ(shard_of(seven_runs(folder / ""), 2, 3).results.filename(), "s.shard_2_of_3.csv");
  EXPECT_ERROR(shard_of(seven_runs(folder / ""), 0, 3), InputError, "got 0/3");
  EXPECT_ERROR(shard_of(seven_runs(folder / ""), 4, 3), InputError, "got 4/3");
}

TEST(Shard, ResultsAreTakenByTheWholeSweep) {
  const test::TemporaryFolder folder;
  const std::string head = "key,group,status,loss\n";
  write_file(folder / "s.shard_1_of_2.csv", head + "g-0,g,done,1.5\n");
  write_file(folder / "s.shard_2_of_2.csv", head + "g-1,g,done,2.5\n");
  write_file(folder / "other.csv", head + "g-2,g,done,3.5\n");
  EXPECT_EQ(results_files(folder / "s.csv").size(), 2U);
  const auto entries = SweepRecord(seven_runs(folder / ""), SweepRecord::For::looking).entries();
  EXPECT_EQ(sweep_csv(entries).find("g-2,"), std::string::npos);
  EXPECT_NE(sweep_csv(entries).find("g-0,g,done"), std::string::npos);
  EXPECT_NE(sweep_csv(entries).find("g-1,g,done"), std::string::npos);
}

}  // namespace
}  // namespace bridle
