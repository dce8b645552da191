#include "base/available_memory.h"

#include "base/files.h"
#include "file_support.h"

namespace bridle {
namespace {

using test::TemporaryFolder;

class AvailableMemory : public testing::Test {
 protected:
  void SetUp() override {
    make_folder(folder_ / "proc/self");
    make_folder(folder_ / "cgroup/a/b");
    write_file(folder_ / "proc/meminfo", "MemTotal:       2000 kB\nMemAvailable:   1000 kB\n");
    write_file(folder_ / "proc/self/cgroup", "0::/a/b\n");
  }
  void limit(const char* group, const std::string& most, const std::string& used) {
    write_file(folder_ / "cgroup" / group / "memory.max", most + "\n");
    write_file(folder_ / "cgroup" / group / "memory.current", used + "\n");
  }
  std::optional<int64_t> found() const { return available_memory(folder_ / "proc", folder_ / "cgroup"); }
  TemporaryFolder folder_;
};

TEST_F(AvailableMemory, IsWhatTheKernelSays) {
  EXPECT_EQ(found(), 1'024'000);
  EXPECT_GT(available_memory().value(), 0);
}

TEST_F(AvailableMemory, IsWhatIsLeftBelowTheLowestLimitOfItsGroups) {
  limit("a/b", "max", "100");
  EXPECT_EQ(found(), 1'024'000);
  limit("a", "500000", "200000");
  EXPECT_EQ(found(), 300'000);
  write_file(folder_ / "cgroup/a/memory.stat", "anon 7\ninactive_file 50000\n");
  EXPECT_EQ(found(), 350'000);
  limit("a/b", "1000", "5000");
  EXPECT_EQ(found(), 0);
}

// In a container the path of /proc/self/cgroup may be one outside of it.
TEST_F(AvailableMemory, LooksAtTheRootWhereItsGroupIsNotToBeSeen) {
  write_file(folder_ / "proc/self/cgroup", "0::/elsewhere\n");
  limit("", "7000", "4000");
  EXPECT_EQ(found(), 3000);
}

TEST_F(AvailableMemory, IsUnknownWhereNothingIsSaid) {
  EXPECT_EQ(available_memory(folder_ / "none", folder_ / "none"), std::nullopt);
}

}  // namespace
}  // namespace bridle
