#include "io/metrics.h"

#include "base/files.h"
#include "bridle/error.h"
#include "file_support.h"

namespace bridle {
namespace {

using test::TemporaryFolder;

TEST(Metrics, AreAppendedAndCutWhereARunGoesOn) {
  const TemporaryFolder folder;
  int64_t kept = 0;
  {
    MetricsFile metrics(folder / "m", 0);
    metrics.append("{\"step\":1}");
    kept = metrics.size();
    metrics.append("{\"step\":2}");
  }
  EXPECT_EQ(read_file(folder / "m"), "{\"step\":1}\n{\"step\":2}\n");
  MetricsFile metrics(folder / "m", kept);
  EXPECT_EQ(read_file(folder / "m"),
            "{\"step\":1}\n");  // at once, not when new lines happen to cover the old ones
  metrics.append("{\"step\":3}");
  EXPECT_EQ(read_file(folder / "m"), "{\"step\":1}\n{\"step\":3}\n");
  EXPECT_ERROR(MetricsFile(folder / "m", 1000), InputError, "shorter than when the checkpoint was written");
}

}  // namespace
}  // namespace bridle
