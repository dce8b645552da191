#include "report/run_metrics.h"

#include "base/files.h"
#include "file_support.h"

namespace bridle {
namespace {

using test::TemporaryFolder;

RunMetrics metrics_of(const std::string& text) {
  const TemporaryFolder folder;
  write_file(folder / "metrics.jsonl", text);
  return read_metrics(folder / "metrics.jsonl");
}

TEST(RunMetrics, AreSeriesByKeyAndByWeight) {
  const RunMetrics metrics = metrics_of(
      "{\"step\":1,\"loss\":2.5,\"norms\":{\"a\":1.0,\"b\":2.0}}\n"
      "{\"step\":2,\"loss\":2.25,\"norms\":{\"a\":1.5,\"b\":null}}\n"
      "{\"step\":2,\"validation_loss\":2.0,\"lipschitz\":null}\n");
  EXPECT_EQ(metrics.lines, 3);
  EXPECT_EQ(metrics.series.at("loss").points().size(), 2U);
  EXPECT_EQ(metrics.series.at("validation_loss").points().front().step, 2);
  EXPECT_EQ(metrics.of_weights.at("norms").at("a").points().back().mean, 1.5);
  EXPECT_EQ(metrics.of_weights.at("norms").at("b").points().back().finite, 0);
  EXPECT_EQ(metrics.last.at("loss"), 2.25);
  EXPECT_TRUE(metrics.last.at("lipschitz").is_null());
}

TEST(RunMetrics, PassOverLinesThatAreDamaged) {
  const RunMetrics metrics = metrics_of(
      "{\"step\":1,\"loss\":2}\nnonsense\n{\"loss\":1}\n[1]\n\n{\"step\":3,\"loss\":1}\n{\"step\":4,");
  EXPECT_EQ(metrics.lines, 2);
  EXPECT_EQ(metrics.damaged, 4);  // the last one is still being written
  EXPECT_EQ(metrics.last.at("loss"), 1);
}

TEST(RunMetrics, OfAMissingFileAreNone) {
  const TemporaryFolder folder;
  EXPECT_EQ(read_metrics(folder / "metrics.jsonl").lines, 0);
}

TEST(MetricsReader, ReadsWhatIsNewAndBeginsAgainWhereTheFileWasCut) {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder / "metrics.jsonl";
  MetricsReader reader;
  EXPECT_EQ(reader.read(path).lines, 0);
  write_file(path, "{\"step\":1,\"loss\":3}\n{\"step\":2,\"lo");
  EXPECT_EQ(reader.read(path).lines, 1);
  write_file(path, "{\"step\":1,\"loss\":3}\n{\"step\":2,\"loss\":2}\n");
  EXPECT_EQ(reader.read(path).last.at("loss"), 2);
  EXPECT_EQ(reader.read(path).lines, 2);
  write_file(path, "{\"step\":1,\"loss\":3}\n{\"step\":2,\"loss\":9}\n{\"step\":3,\"loss\":8}\n");
  EXPECT_EQ(reader.read(path).lines, 3);
  EXPECT_EQ(reader.read(path).series.at("loss").points()[1].mean, 9.0);
  write_file(path, "");
  EXPECT_EQ(reader.read(path).lines, 0);
}

TEST(RunMetrics, AsJsonHaveSevenDigitsButABoundHasAll) {
  ThinnedSeries series;
  series.add(1, 1.23456789012345);
  series.add(2, std::numeric_limits<double>::quiet_NaN());
  EXPECT_EQ(json_of(series, false).dump(), R"({"step":[1,2],"value":[1.234568,null]})");
  EXPECT_EQ(json_of(series, true)["value"][0], 1.23456789012345);
}

TEST(RunMetrics, AThinnedBoundIsTheLargestOfItsLines) {
  ThinnedSeries series(2);
  for (const double value : {3.0, 5.0, 4.0, 1.0}) series.add(1, value);
  EXPECT_EQ(json_of(series, true)["value"].dump(), "[5.0,4.0]");
  EXPECT_EQ(json_of(series, false)["value"].dump(), "[4.0,2.5]");
  EXPECT_EQ(json_of(series, false)["high"].dump(), "[5.0,4.0]");
  EXPECT_EQ(json_of(series, false)["lines_per_point"], 2);
  for (const char* key : {"lipschitz", "log10_lipschitz", "bound_of_caps", "activation"})
    EXPECT_TRUE(is_bound(key));
  for (const char* key : {"loss", "accuracy", "seconds"}) EXPECT_FALSE(is_bound(key));
}

}  // namespace
}  // namespace bridle
