#include "sweep/registry.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <set>

#include "base/files.h"
#include "bridle/error.h"
#include "file_support.h"

namespace bridle {
namespace {

std::vector<SweepRun> runs(int count) {
  std::vector<SweepRun> list;
  for (int i = 0; i < count; ++i)
    list.push_back({.key = "g-" + std::to_string(i),
                    .group = "g",
                    .varied = {{"optimizer.lr", std::to_string(i)}},
                    .steps = 5});
  return list;
}

class RegistryTest : public testing::Test {
 protected:
  test::TemporaryFolder folder_;
  std::filesystem::path path_ = folder_ / "sweep.db";
};

// A process that has ended.
std::string dead_process() {
  const pid_t child = fork();
  if (child == 0) pause();
  const std::string owner = this_process();  // of the right form
  const std::string name = std::to_string(child) + owner.substr(owner.find(':'));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  return name;
}

TEST_F(RegistryTest, GivesEveryRunOnceAndInOrder) {
  Registry registry(path_), other(path_);
  registry.set_runs(runs(3), {});
  EXPECT_EQ(registry.claim(this_process()), "g-0");
  EXPECT_EQ(other.claim(this_process()), "g-1");
  EXPECT_EQ(registry.claim(this_process()), "g-2");
  EXPECT_FALSE(other.claim(this_process()));
}

TEST_F(RegistryTest, GivesARunWhoseOwnerDiedToTheNextAndFailsItAfterThree) {
  Registry registry(path_);
  registry.set_runs(runs(2), {});
  for (int i = 0; i < 3; ++i) EXPECT_EQ(registry.claim(dead_process()), "g-0");
  EXPECT_EQ(registry.claim(this_process()), "g-1");
  EXPECT_EQ(registry.entries()[0].status, SweepStatus::failed);
  registry.retry_failed();
  EXPECT_EQ(registry.claim(this_process()), "g-0");
}

TEST_F(RegistryTest, KeepsResultsWhenTheFileChangesOrTheDatabaseIsOpenedAgain) {
  {
    Registry registry(path_);
    registry.set_runs(runs(2), {});
    registry.claim(this_process());
    registry.finish("g-0", SweepStatus::done, {{"loss", "1.25"}});
  }
  Registry registry(path_);
  registry.set_runs({runs(2)[1]}, {});
  const auto entries = registry.entries();
  ASSERT_EQ(entries.size(), 2U);
  for (const SweepEntry& entry : entries) {
    if (entry.key != "g-0") continue;
    EXPECT_EQ(entry.status, SweepStatus::done);
    EXPECT_EQ(entry.cells.at("loss"), "1.25");
    EXPECT_EQ(entry.cells.at("optimizer.lr"), "0");
    EXPECT_FALSE(entry.wanted);
  }
  EXPECT_EQ(registry.claim(this_process()), "g-1");
}

TEST_F(RegistryTest, TakesResultsFromElsewhereButNotFailures) {
  Registry registry(path_);
  registry.set_runs(runs(2), {{{"key", "g-0"}, {"group", "g"}, {"status", "done"}, {"loss", "2"}},
                              {{"key", "g-1"}, {"group", "g"}, {"status", "failed"}},
                              {{"key", "old-7"}, {"group", "old"}, {"status", "diverged"}}});
  EXPECT_EQ(registry.claim(this_process()), "g-1");
  EXPECT_FALSE(registry.claim(this_process()));
  EXPECT_EQ(registry.entries().size(), 3U);  // what the file does not know stays
}

TEST_F(RegistryTest, LetsAReleasedRunWaitAndCountsItsSteps) {
  Registry registry(path_);
  registry.set_runs(runs(1), {});
  registry.claim(this_process());
  registry.set_step("g-0", 3);
  EXPECT_EQ(registry.entries()[0].step, 3);
  EXPECT_EQ(registry.entries()[0].status, SweepStatus::running);
  registry.release("g-0");
  EXPECT_EQ(registry.entries()[0].status, SweepStatus::waiting);
}

TEST_F(RegistryTest, RefusesAFileThatIsNoDatabase) {
  write_file(path_, std::string(4096, 'x'));
  EXPECT_THROW(Registry registry(path_), InputError);
}

TEST(IsAlive, KnowsAProcessByItsBeginning) {
  const std::string own = this_process();
  EXPECT_TRUE(is_alive(own));
  EXPECT_FALSE(is_alive(own + "1"));
  EXPECT_FALSE(is_alive(""));
  EXPECT_FALSE(is_alive(dead_process()));
}

}  // namespace
}  // namespace bridle
