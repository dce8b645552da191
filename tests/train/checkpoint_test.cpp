#include "train/checkpoint.h"

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
          .tensors = {{}, {{"model/w", test::normal({5, 5}, 1)}}}};
}

TEST(Checkpoints, KeepEverythingAndTheNewestTwo) {
  const TemporaryFolder run;
  EXPECT_FALSE(read_newest_checkpoint(run).has_value());
  for (const int64_t step : {5, 10, 15}) write_checkpoint(run, at_step(step));
  EXPECT_EQ(entries(run / "state"), (std::vector<std::string>{"step_00000010", "step_00000015"}));
  const auto newest = read_newest_checkpoint(run);
  ASSERT_TRUE(newest.has_value());
  EXPECT_EQ(newest->step, 15);
  EXPECT_EQ(newest->loader_position, 30);
  EXPECT_EQ(newest->metrics_bytes, 45);
  EXPECT_EQ(newest->repairs, 4);
  EXPECT_EQ(newest->seconds, 0.1);
  EXPECT_TRUE(newest->tensors.at("model/w").equal(test::normal({5, 5}, 1)));
}

TEST(Checkpoints, SurviveAFullDisk) {
  const TemporaryFolder run;
  write_checkpoint(run, at_step(5));
  {
    const FileSizeLimit limit(100);
    EXPECT_ERROR(write_checkpoint(run, at_step(10)), InputError, "File too large");
  }
  EXPECT_EQ(read_newest_checkpoint(run)->step, 5);
  write_checkpoint(run, at_step(10));
  EXPECT_EQ(read_newest_checkpoint(run)->step, 10);
}

TEST(Checkpoints, FallBackToAnOlderOne) {
  const TemporaryFolder run;
  write_checkpoint(run, at_step(5));
  write_checkpoint(run, at_step(10));
  write_file(run / "state/step_00000010/state.json", "{");
  std::string trouble;
  EXPECT_EQ(read_newest_checkpoint(run, &trouble)->step, 5);
  EXPECT_NE(trouble.find("step_00000010/state.json"), std::string::npos);
  write_file(run / "state/step_00000005/state.safetensors", "short");
  EXPECT_ERROR(read_newest_checkpoint(run), InputError, "no checkpoint in");
}

}  // namespace
}  // namespace bridle
