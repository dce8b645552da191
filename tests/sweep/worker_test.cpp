#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "base/files.h"
#include "bridle/sweep.h"
#include "sweep/results.h"
#include "train_support.h"

namespace bridle {
namespace {

constexpr const char* kRecipe =
    "[data]\nname = 'words'\nsequence_length = 16\nbatch_size = 4\n"
    "[model]\nhidden_size = 32\nnum_hidden_layers = 1\nnum_attention_heads = 2\n"
    "[constraint]\nmethod = 'soft_cap'\n"
    "[training]\nsteps = 6\nevaluate_every = 100\ncheckpoint_every = 2\n";

class SweepWorkerTest : public testing::Test {
 protected:
  SweepWorkerTest() {
    test::import_words(data_);
    write_file(folder_ / "recipe.toml", kRecipe);
  }
  Sweep sweep(const std::string& rest) {
    write_file(folder_ / "sweep.toml",
               "recipe = 'recipe.toml'\nfolder = '" + (folder_ / "work").string() + "'\n" + rest);
    return read_sweep(folder_ / "sweep.toml");
  }
  std::vector<Cells> results() { return parse_csv(read_file(folder_ / "sweep.csv"), "sweep.csv"); }

  test::TemporaryData data_;
  test::TemporaryFolder folder_;
};

TEST_F(SweepWorkerTest, TrainsEveryRunAndWritesWhatItIsWorth) {
  SweepRecord record(sweep("[set]\n'data.held_out' = 0.1\n[grid]\n'training.seed' = [0, 1]\n"));
  record.work({.commit = "abc"});
  const auto rows = results();
  ASSERT_EQ(rows.size(), 2U);
  for (const Cells& row : rows) {
    EXPECT_EQ(row.at("status"), "done");
    EXPECT_EQ(row.at("split"), "held_out");
    EXPECT_EQ(row.at("commit"), "abc");
    EXPECT_EQ(row.at("steps"), "6");
    for (const char* name : {"loss", "accuracy", "paper_loss", "log10_bound", "log10_paper_bound"})
      EXPECT_TRUE(std::isfinite(std::stod(row.at(name)))) << name;
  }
  EXPECT_NE(rows[0].at("loss"), rows[1].at("loss"));
  EXPECT_TRUE(test::entries(folder_ / "work/runs").empty());
}

TEST_F(SweepWorkerTest, GivesTheSameResultsAsTrainingByHandAndKeepsTheRunWhereAsked) {
  const Sweep one = sweep("keep = true\n");
  SweepRecord(one).work({});
  Trainer trainer(read_recipe(folder_ / "recipe.toml"), folder_ / "by_hand");
  EXPECT_NEAR(std::stod(results()[0].at("loss")), trainer.run().validation_loss, 1e-5);
  EXPECT_TRUE(std::filesystem::exists(folder_ / "work/runs" / one.runs[0].key / "model.safetensors"));
}

TEST_F(SweepWorkerTest, CallsARunThatDivergesOrFailsWhatItIsAndGoesOn) {
  SweepRecord record(
      sweep("[[group]]\nname = 'wild'\n[group.set]\n'optimizer.lr' = 1e30\n'constraint.method' = 'none'\n"
            "[[group]]\nname = 'absent'\n[group.set]\n'data.name' = 'nothing'\n[[group]]\nname = 'good'\n"));
  record.work({});
  std::map<std::string, std::string> status;
  for (const Cells& row : results()) status[row.at("group")] = row.at("status");
  EXPECT_EQ(status, (std::map<std::string, std::string>{
                        {"wild", "diverged"}, {"absent", "failed"}, {"good", "done"}}));
}

TEST_F(SweepWorkerTest, GoesOnFromTheResultsFileAlone) {
  const std::string text = "[grid]\n'training.seed' = [0, 1]\n";
  SweepRecord(sweep(text)).work({.commit = "first"});
  std::filesystem::remove_all(folder_ / "work");
  SweepRecord(sweep("[grid]\n'training.seed' = [0, 1, 2]\n")).work({.commit = "second"});
  std::map<std::string, std::string> commits;
  for (const Cells& row : results()) commits[row.at("training.seed")] = row.at("commit");
  EXPECT_EQ(commits, (std::map<std::string, std::string>{{"0", "first"}, {"1", "first"}, {"2", "second"}}));
}

TEST_F(SweepWorkerTest, StopsWhenAskedAndTheNextWorkerGoesOnWithTheSameRun) {
  const Sweep one = sweep("keep = true\n[set]\n'training.steps' = 400\n'training.checkpoint_every' = 50\n");
  const std::filesystem::path run = folder_ / "work/runs" / one.runs[0].key;
  SweepRecord record(one);
  std::atomic<bool> stop{false};
  std::thread worker([&] { record.work({.stop = &stop}); });
  const auto saved = [&run] {
    std::error_code none;
    return std::filesystem::exists(run / "state") && !std::filesystem::is_empty(run / "state", none);
  };
  while (!saved() && record.entries()[0].status != SweepStatus::done) std::this_thread::yield();
  stop = true;
  worker.join();
  EXPECT_EQ(record.entries()[0].status, SweepStatus::waiting);
  write_file(run / "mark", "");  // a run that began again would have a new folder
  record.work({});
  EXPECT_EQ(record.entries()[0].status, SweepStatus::done);
  EXPECT_TRUE(std::filesystem::exists(run / "mark"));
}

TEST_F(SweepWorkerTest, LosesNoCheckpointOfARunWithoutConfig) {
  const Sweep one = sweep("keep = true\n");
  const std::filesystem::path run = folder_ / "work/runs" / one.runs[0].key;
  std::filesystem::create_directories(run / "state/step_4");
  write_file(run / "state/step_4/weights", "all that is left");
  SweepRecord record(one);
  record.work({});
  EXPECT_EQ(record.entries()[0].status, SweepStatus::failed);
  EXPECT_EQ(read_file(run / "state/step_4/weights"), "all that is left");
}

TEST_F(SweepWorkerTest, TakesWhatSomebodyElseAddedToTheResultsMeanwhile) {
  SweepRecord record(sweep("[grid]\n'training.seed' = [0]\n"));
  write_file(folder_ / "sweep.csv", "key,group,status,loss\nother-1,other,done,1.5\n");
  record.work({});
  std::map<std::string, std::string> losses;
  for (const Cells& row : results()) losses[row.at("key")] = row.at("loss");
  EXPECT_EQ(losses.size(), 2U);
  EXPECT_EQ(losses["other-1"], "1.5");
}

}  // namespace
}  // namespace bridle
