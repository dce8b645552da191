#include "report/comparison.h"

#include "base/files.h"
#include "bridle/error.h"
#include "file_support.h"

namespace bridle {
namespace {

using test::TemporaryFolder;
namespace fs = std::filesystem;

fs::path run_in(const fs::path& folder, const std::string& config) {
  make_folder(folder);
  write_file(folder / "config.toml", config);
  write_file(folder / "metrics.jsonl",
             "{\"step\":1,\"loss\":3}\n{\"step\":2,\"loss\":2.5,\"lipschitz\":9.0}\n");
  return folder;
}

TEST(Comparison, NamesTheSettingsThatDiffer) {
  const TemporaryFolder folder;
  const Comparison both =
      compare_runs({run_in(folder / "a", "[optimizer]\nlr = 0.5\nbeta = 0.9\n"),
                    run_in(folder / "b", "[optimizer]\nlr = 0.25\nbeta = 0.9\n[data]\nname = \"x\"\n")});
  EXPECT_EQ(both.differing, (std::vector<std::string>{"data.name", "optimizer.lr"}));
  EXPECT_EQ(both.runs[1].settings.at("optimizer.lr"), "0.25");
  EXPECT_EQ(both.runs[0].name, "a");
}

TEST(Comparison, SaysHowRunsEnded) {
  const TemporaryFolder folder;
  const fs::path run = run_in(folder / "a", "");
  EXPECT_EQ(compare_runs({run}).runs[0].outcome.at("lipschitz"), 9.0);
  write_file(run / "certificate.json", "{\"lipschitz\":8.5,\"observed_lipschitz\":3.0}");
  write_file(run / "run.json", "{\"status\":\"finished\"}");
  const ComparedRun compared = compare_runs({run}).runs[0];
  EXPECT_EQ(compared.outcome.at("loss"), 2.5);
  EXPECT_EQ(compared.outcome.at("lipschitz"), 8.5);
  EXPECT_EQ(compared.outcome.at("observed_lipschitz"), 3.0);
  EXPECT_EQ(compared.outcome.at("status"), "finished");
  EXPECT_EQ(compared.loss.points().size(), 2U);
}

TEST(Comparison, RefusesAFolderThatIsNoRun) {
  const TemporaryFolder folder;
  EXPECT_ERROR(compare_runs({folder}), InputError, "is no run");
}

}  // namespace
}  // namespace bridle
