#include "train/kept_metrics.h"

#include "base/files.h"
#include "file_support.h"

namespace bridle {
namespace {

using test::TemporaryFolder;

const std::string kTwo = "{\"step\": 5}\n{\"step\": 10}\n";

int64_t kept(const TemporaryFolder& folder, const std::string& text, bool& complete) {
  write_file(folder / "metrics.jsonl", text);
  const KeptMetrics found = kept_metrics(folder / "metrics.jsonl", std::ssize(kTwo), 10);
  complete = found.trouble.empty();
  return found.bytes;
}

TEST(KeptMetrics, AreWhatStoodThereAtTheCheckpoint) {
  const TemporaryFolder folder;
  bool complete = false;
  for (const char* later : {"", "{\"step\": 15}\n", "{\"st"}) {
    EXPECT_EQ(kept(folder, kTwo + later, complete), std::ssize(kTwo)) << later;
    EXPECT_TRUE(complete) << later;
  }
  EXPECT_TRUE(kept_metrics(folder / "none", 0, 0).trouble.empty());
}

TEST(KeptMetrics, AreTheWholeLinesOfAFileThatIsShort) {
  const TemporaryFolder folder;
  bool complete = true;
  for (size_t size = 0; size < kTwo.size(); ++size) {
    const int64_t first = std::ssize(std::string("{\"step\": 5}\n"));
    EXPECT_EQ(kept(folder, kTwo.substr(0, size), complete),
              std::ssize(kTwo.substr(0, size)) < first ? 0 : first);
    EXPECT_FALSE(complete);
  }
  EXPECT_EQ(kept(folder, "{\"step\": 5}\nnothing\n{\"step\": 10}\n", complete), 12);
  const KeptMetrics missing = kept_metrics(folder / "none", 100, 10);
  EXPECT_EQ(missing.bytes, 0);
  EXPECT_NE(missing.trouble.find("none is missing"), std::string::npos);
}

// Lines that were lost before make the file shorter than the checkpoint says, and it may have grown since.
TEST(KeptMetrics, EndBeforeTheStepsThatWillBeDoneAgain) {
  const TemporaryFolder folder;
  bool complete = true;
  EXPECT_EQ(kept(folder, "{\"step\": 10}\n{\"step\": 15}\n{\"step\": 20}\n", complete), 13);
  EXPECT_FALSE(complete);
}

}  // namespace
}  // namespace bridle
