#include "report/live_folder.h"

#include <nlohmann/json.hpp>

#include "base/files.h"
#include "bridle/error.h"
#include "file_support.h"

namespace bridle {
namespace {

using test::TemporaryFolder;
namespace fs = std::filesystem;

fs::path run_in(const fs::path& folder, const std::string& metrics = "{\"step\":1,\"loss\":2}\n") {
  fs::create_directories(folder);
  write_file(folder / "metrics.jsonl", metrics);
  return folder;
}

TEST(LiveFolder, GivesNoFolderOutsideOfItsOwn) {
  const TemporaryFolder folder;
  run_in(folder / "runs/a");
  run_in(folder / "runs_of_others/b");
  fs::create_directory_symlink(folder / "runs_of_others", folder / "runs/link");
  const LiveFolder live(folder / "runs");
  EXPECT_EQ(live.inside("/"), fs::canonical(folder / "runs"));
  EXPECT_EQ(live.inside("/a/"), fs::canonical(folder / "runs/a"));
  EXPECT_EQ(live.inside("/a/../a/"), fs::canonical(folder / "runs/a"));
  for (const char* path : {"/../", "/../runs_of_others/", "/a/../../runs_of_others/b/", "/link/", "/link/b/",
                           "//etc/", "/none/", "/a/metrics.jsonl"})
    EXPECT_FALSE(live.inside(path)) << path;
  EXPECT_FALSE(live.inside(std::string("/a\0/", 4)));
  EXPECT_ERROR(LiveFolder(folder / "none"), InputError, "is not a folder");
}

TEST(LiveFolder, FindsRunsAndPassesOverLinks) {
  const TemporaryFolder folder;
  const fs::path a = run_in(folder / "a"), deep = run_in(folder / "x/y/z");
  run_in(folder / "x/y/deeper/than/that");
  fs::create_directory_symlink(a, folder / "link");
  EXPECT_EQ(LiveFolder::runs_in(folder), (std::vector<fs::path>{a, deep}));
  EXPECT_EQ(LiveFolder::runs_in(a), std::vector<fs::path>{a});
}

TEST(LiveFolder, HasAnotherTagOnceAFileHasChanged) {
  const TemporaryFolder folder;
  const fs::path run = run_in(folder / "a");
  LiveFolder live(folder);
  const std::string before = LiveFolder::tag_of({run});
  EXPECT_EQ(LiveFolder::tag_of({run}), before);
  const auto loss = [&] {
    return nlohmann::json::parse(live.data_of(folder, {run}))["runs"][0]["metrics"]["last"]["loss"];
  };
  EXPECT_EQ(loss(), 2);
  run_in(run, "{\"step\":1,\"loss\":2}\n{\"step\":2,\"loss\":1}\n");
  EXPECT_NE(LiveFolder::tag_of({run}), before);
  EXPECT_EQ(loss(), 1);
  write_file(run / "certificate.json", "{}");
  EXPECT_NE(LiveFolder::tag_of({run}), before);
}

}  // namespace
}  // namespace bridle
