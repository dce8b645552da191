#include "report/run_report.h"

#include "base/files.h"
#include "bridle/error.h"
#include "train_support.h"

namespace bridle {
namespace {

using test::TemporaryFolder;
using Json = nlohmann::ordered_json;

TEST(RunReport, OfATrainedRunHasItsParts) {
  const test::TemporaryData data;
  const bridle::Run run = test::short_run(data);
  const Json report = run_report(run.folder);
  EXPECT_EQ(report["problems"].size(), 0U) << report["problems"];
  EXPECT_EQ(report["settings"]["data.name"], "words");
  EXPECT_EQ(report["settings"]["training.steps"], "2");
  EXPECT_EQ(report["metrics"]["last"]["step"], 2);
  EXPECT_TRUE(report["metrics"]["series"].contains("validation_loss"));
  EXPECT_EQ(report["certificate"]["weights"]["sha256"].get<std::string>().size(), 64U);
  EXPECT_FALSE(report["certificate"]["layers"].empty());
}

TEST(RunReport, NamesWhatIsDamagedAndShowsTheRest) {
  const TemporaryFolder folder;
  write_file(folder / "config.toml",
             "[data]\nname = \"<script>alert(1)</script>\"\nlist = [1, 0.03, \"a\"]\nrate = 0.03\n");
  write_file(folder / "certificate.json", "{\"schema\":");
  write_file(folder / "metrics.jsonl", "{\"step\":1,\"loss\":2}\nnonsense\n");
  const Json report = run_report(folder);
  EXPECT_EQ(report["settings"]["data.name"], "<script>alert(1)</script>");
  EXPECT_EQ(report["settings"]["data.list"], "[1, 0.03, 'a']");
  EXPECT_EQ(report["settings"]["data.rate"], "0.03");
  EXPECT_FALSE(report.contains("certificate"));
  EXPECT_EQ(report["metrics"]["lines"], 1);
  ASSERT_EQ(report["problems"].size(), 2U);
  EXPECT_EQ(report["problems"][0], "metrics.jsonl: 1 of its lines are damaged");
  EXPECT_NE(report["problems"][1].get<std::string>().find("certificate.json"), std::string::npos);
}

TEST(RunReport, HoldsSamplesTheNewestFirstAndThePictureAsText) {
  const TemporaryFolder folder;
  write_file(folder / "metrics.jsonl", "");
  write_file(folder / "samples.jsonl", "{\"text\":\"first\"}\nbroken\n{\"text\":\"second\"}\n{\"text\":3}\n");
  write_file(folder / "attack.png", "\x89PNG");
  const Json report = run_report(folder);
  ASSERT_EQ(report["samples"].size(), 2U);
  EXPECT_EQ(report["samples"][0]["text"], "second");
  EXPECT_EQ(report["attack_picture"], "iVBORw==");
}

TEST(RunReport, RefusesAFolderThatIsNoRun) {
  const TemporaryFolder folder;
  EXPECT_ERROR(run_report(folder), InputError, "is no run");
}

}  // namespace
}  // namespace bridle
