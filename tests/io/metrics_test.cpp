#include "io/metrics.h"

#include <limits>

#include "base/files.h"
#include "bridle/error.h"
#include "file_support.h"

namespace bridle {
namespace {

using test::TemporaryFolder;

TEST(JsonLines, AreAppendedAndCutWhereARunGoesOn) {
  const TemporaryFolder folder;
  int64_t kept = 0;
  {
    JsonLines lines(folder / "m", 0);
    lines.write({.step = 1});
    kept = lines.size();
    lines.write({.step = 2});
  }
  EXPECT_EQ(read_file(folder / "m"), "{\"step\":1}\n{\"step\":2}\n");
  JsonLines lines(folder / "m", kept);
  EXPECT_EQ(read_file(folder / "m"),
            "{\"step\":1}\n");  // at once, not when new lines happen to cover the old ones
  lines.write({.step = 3});
  lines.sync();
  EXPECT_EQ(read_file(folder / "m"), "{\"step\":1}\n{\"step\":3}\n");
  EXPECT_ERROR(JsonLines(folder / "m", 1000), InputError, "shorter than when the checkpoint was written");
}

TEST(JsonLines, KeepTheOrderOfARecordAndHaveNullForWhatIsNotFinite) {
  const TemporaryFolder folder;
  constexpr double infinity = std::numeric_limits<double>::infinity();
  JsonLines lines(folder / "m", 0);
  lines.write({.step = 10,
               .metrics = {{"loss", 0.1},
                           {"repairs", int64_t{0}},
                           {"norms", Metric::PerWeight{{"z.weight", 1.5}, {"a.weight", infinity}}},
                           {"caps", Metric::PerWeight{}},
                           {"rate", 1200.0},
                           {"lipschitz", infinity},
                           {"accuracy", std::numeric_limits<double>::quiet_NaN()}}});
  EXPECT_EQ(read_file(folder / "m"),
            "{\"step\":10,\"loss\":0.1,\"repairs\":0,\"norms\":{\"z.weight\":1.5,\"a.weight\":null},"
            "\"caps\":{},\"rate\":1200.0,\"lipschitz\":null,\"accuracy\":null}\n");
}

}  // namespace
}  // namespace bridle
