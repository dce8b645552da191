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

const std::set<std::string> kAll = {"g-0", "g-1", "g-2"};

class RegistryTest : public testing::Test {
 protected:
  test::TemporaryFolder folder_;
  std::filesystem::path path_ = folder_ / "sweep.db";
};

// A process that has ended.
std::string dead_process() {
  const pid_t child = fork();
  if (child == 0) pause();
  const std::string name = process_named(std::to_string(child));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  return name;
}

TEST_F(RegistryTest, GivesEveryRunOnceAndInOrder) {
  Registry registry(path_, "a"), other(path_, "a");
  registry.set_runs(runs(3), {});
  EXPECT_EQ(registry.claim(this_process(), kAll), "g-0");
  EXPECT_EQ(other.claim(this_process(), kAll), "g-1");
  EXPECT_EQ(registry.claim(this_process(), kAll), "g-2");
  EXPECT_FALSE(other.claim(this_process(), kAll));
}

TEST_F(RegistryTest, GivesARunWhoseOwnerDiedToTheNextAndFailsItAfterThree) {
  Registry registry(path_, "a");
  registry.set_runs(runs(2), {});
  for (int i = 0; i < 3; ++i) EXPECT_EQ(registry.claim(dead_process(), kAll), "g-0");
  EXPECT_EQ(registry.claim(this_process(), kAll), "g-1");
  EXPECT_EQ(registry.entries()[0].status, SweepStatus::failed);
  registry.retry_failed();
  EXPECT_EQ(registry.claim(this_process(), kAll), "g-0");
}

TEST_F(RegistryTest, KeepsResultsWhenTheFileChangesOrTheDatabaseIsOpenedAgain) {
  {
    Registry registry(path_, "a");
    registry.set_runs(runs(2), {});
    registry.claim(this_process(), kAll);
    registry.finish("g-0", SweepStatus::done, {{"loss", "1.25"}});
  }
  Registry registry(path_, "a");
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
  EXPECT_EQ(registry.claim(this_process(), kAll), "g-1");
}

TEST_F(RegistryTest, TakesResultsFromElsewhereButNotFailures) {
  Registry registry(path_, "a");
  registry.set_runs(runs(2), {{{"key", "g-0"}, {"group", "g"}, {"status", "done"}, {"loss", "2"}},
                              {{"key", "g-1"}, {"group", "g"}, {"status", "failed"}},
                              {{"key", "old-7"}, {"group", "old"}, {"status", "diverged"}}});
  EXPECT_EQ(registry.claim(this_process(), kAll), "g-1");
  EXPECT_FALSE(registry.claim(this_process(), kAll));
  EXPECT_EQ(registry.entries().size(), 3U);  // what the file does not know stays
}

TEST_F(RegistryTest, LetsAReleasedRunWaitAndCountsItsSteps) {
  Registry registry(path_, "a");
  registry.set_runs(runs(1), {});
  registry.claim(this_process(), kAll);
  registry.set_step("g-0", 3);
  EXPECT_EQ(registry.entries()[0].step, 3);
  EXPECT_EQ(registry.entries()[0].status, SweepStatus::running);
  registry.release("g-0");
  EXPECT_EQ(registry.entries()[0].status, SweepStatus::waiting);
}

TEST_F(RegistryTest, RefusesAFileThatIsNoDatabase) {
  write_file(path_, std::string(4096, 'x'));
  EXPECT_THROW(Registry(path_, "a"), InputError);
}

TEST_F(RegistryTest, GivesOnlyRunsThatTheCallerKnows) {
  Registry registry(path_, "a");
  registry.set_runs(runs(3), {});
  EXPECT_EQ(registry.claim(this_process(), {"g-2"}), "g-2");
  EXPECT_FALSE(registry.claim(this_process(), {"g-2", "g-7"}));
}

TEST_F(RegistryTest, ForgetsLostOwnersOfARunThatGetsFarther) {
  Registry registry(path_, "a");
  registry.set_runs(runs(1), {});
  for (int i = 1; i <= 4; ++i) {
    EXPECT_EQ(registry.claim(dead_process(), kAll), "g-0") << i;
    registry.set_step("g-0", i);
  }
}

TEST_F(RegistryTest, BelongsToOneSweep) {
  Registry registry(path_, "a");
  EXPECT_ERROR(Registry(path_, "b"), InputError, "belongs to a");
}

TEST(IsAlive, KnowsAProcessByItsBeginning) {
  const std::string own = this_process();
  EXPECT_TRUE(is_alive(own));
  const size_t began = own.find(':') + 1;
  ASSERT_GT(own.find(':', began), began);  // it has a beginning
  EXPECT_FALSE(is_alive(own.substr(0, began) + "1" + own.substr(began)));
  EXPECT_FALSE(is_alive(""));
  EXPECT_FALSE(is_alive(dead_process()));
  const pid_t child = fork();
  if (child == 0) pause();
  const std::string name = process_named(std::to_string(child));
  EXPECT_TRUE(is_alive(name));
  kill(child, SIGKILL);
  siginfo_t info;
  waitid(P_PID, static_cast<id_t>(child), &info,
         WEXITED | WNOWAIT);  // it has ended, and still has its number
  EXPECT_FALSE(is_alive(name));
  waitpid(child, nullptr, 0);
}

}  // namespace
}  // namespace bridle
