#include "train/checkpoint.h"

#include <fmt/format.h>

#include "base/files.h"
#include "bridle/error.h"
#include "file_support.h"
#include "support.h"

namespace bridle {
namespace {

using test::entries;
using test::FileSizeLimit;
using test::TemporaryFolder;

Checkpoint at_step(int64_t step) {
  return {.step = step,
          .loader_position = 2 * step,
          .metrics_bytes = 3 * step,
          .repairs = 4,
          .seconds = 0.1,
          .recipe = "[data]\nname = \"words\"\n",
          .tensors = {{}, {{"model/w", test::normal({5, 5}, 1)}}}};
}

TEST(Checkpoints, KeepEverythingAndTheNewestTwo) {
  const TemporaryFolder run;
  EXPECT_FALSE(read_newest_checkpoint(run).has_value());
  for (const int64_t step : {5, 10, 15}) write_checkpoint(run, at_step(step), step - 5);
  EXPECT_EQ(entries(run / "state"), (std::vector<std::string>{"step_00000010", "step_00000015"}));
  const auto newest = read_newest_checkpoint(run);
  ASSERT_TRUE(newest.has_value());
  EXPECT_EQ(newest->step, 15);
  EXPECT_EQ(newest->loader_position, 30);
  EXPECT_EQ(newest->metrics_bytes, 45);
  EXPECT_EQ(newest->repairs, 4);
  EXPECT_EQ(newest->seconds, 0.1);
  EXPECT_EQ(newest->recipe, at_step(15).recipe);
  EXPECT_TRUE(newest->tensors.at("model/w").equal(test::normal({5, 5}, 1)));
}

TEST(Checkpoints, SurviveAFullDisk) {
  const TemporaryFolder run;
  write_checkpoint(run, at_step(5), std::nullopt);
  {
    const FileSizeLimit limit(100);
    EXPECT_ERROR(write_checkpoint(run, at_step(10), 5), InputError, "File too large");
  }
  EXPECT_EQ(read_newest_checkpoint(run)->step, 5);
  write_checkpoint(run, at_step(10), 5);
  EXPECT_EQ(read_newest_checkpoint(run)->step, 10);
}

TEST(Checkpoints, FallBackToAnOlderOne) {
  const TemporaryFolder run;
  write_checkpoint(run, at_step(5), std::nullopt);
  write_checkpoint(run, at_step(10), 5);
  write_file(run / "state/step_00000010/state.json", "{");
  std::string trouble;
  EXPECT_EQ(read_newest_checkpoint(run, &trouble)->step, 5);
  EXPECT_NE(trouble.find("step_00000010/state.json"), std::string::npos);
  write_file(run / "state/step_00000005/state.safetensors", "short");
  EXPECT_ERROR(read_newest_checkpoint(run), InputError, "no checkpoint in");
}

// In every file of the newest one in turn, at its beginning, in its middle and at its end.
TEST(Checkpoints, NoticeOneFlippedBit) {
  const TemporaryFolder run;
  write_checkpoint(run, at_step(5), std::nullopt);
  write_checkpoint(run, at_step(10), 5);
  const auto newest = run / "state/step_00000010";
  const std::vector<std::string> names = entries(newest);
  EXPECT_EQ(names,
            (std::vector<std::string>{"SHA256SUMS", "config.toml", "state.json", "state.safetensors"}));
  for (const std::string& name : names) {
    const std::string whole = read_file(newest / name);
    for (const size_t place : {size_t{0}, whole.size() / 2, whole.size() - 1}) {
      std::string flipped = whole;
      flipped[place] = static_cast<char>(flipped[place] ^ 1);
      write_file(newest / name, flipped);
      std::string trouble;
      EXPECT_EQ(read_newest_checkpoint(run, &trouble)->step, 5) << name << ", byte " << place;
      const std::string named = name == "SHA256SUMS" ? "step_00000010/" : "step_00000010/" + name;
      EXPECT_NE(trouble.find(named), std::string::npos) << trouble;
    }
    std::filesystem::remove(newest / name);
    std::string trouble;
    EXPECT_EQ(read_newest_checkpoint(run, &trouble)->step, 5);
    EXPECT_NE(trouble.find("step_00000010/" + name), std::string::npos) << trouble;
    write_file(newest / name, whole);
  }
  EXPECT_EQ(read_newest_checkpoint(run)->step, 10);
}

// A run that went on from an older one keeps that, and not the damaged one, until it has written two.
TEST(Checkpoints, KeepTwoThatVerify) {
  const TemporaryFolder run;
  for (const int64_t next : {7, 10, 12}) {
    write_checkpoint(run, at_step(5), std::nullopt);
    write_checkpoint(run, at_step(10), 5);
    write_file(run / "state/step_00000010/SHA256SUMS", "");
    write_checkpoint(run, at_step(next), 5);
    EXPECT_EQ(entries(run / "state"),
              (std::vector<std::string>{"step_00000005", fmt::format("step_{:08}", next)}));
    EXPECT_EQ(read_newest_checkpoint(run)->step, next);
  }
}

TEST(Checkpoints, AreLeftAloneWhereNoneVerifies) {
  const TemporaryFolder run;
  for (const int64_t step : {5, 10}) {
    write_checkpoint(run, at_step(step), 5);
    write_file(run / fmt::format("state/step_{:08}", step) / "state.json", "{}");
  }
  EXPECT_ERROR(read_newest_checkpoint(run), InputError, "step_00000005/state.json");
  EXPECT_EQ(entries(run / "state"), (std::vector<std::string>{"step_00000005", "step_00000010"}));
}

}  // namespace
}  // namespace bridle
