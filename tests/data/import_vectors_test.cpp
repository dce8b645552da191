#include <gtest/gtest.h>

#include "base/files.h"
#include "bridle/data.h"
#include "bridle/error.h"
#include "data_support.h"
#include "file_support.h"

namespace bridle {
namespace {

std::string some_csv(int rows) {
  std::string text = "a,b,constant,kind,price\n";
  for (int i = 0; i < rows; ++i)
    text += std::to_string(i) + "," + std::to_string(100 - 3 * i) + ",7," + (i % 3 == 0 ? "red" : "blue") +
            "," + std::to_string(1000 + 5 * i) + "\n";
  return text;
}

TEST(ImportedVectors, AreSplitAndStandardisedByTheirTrainingPart) {
  const test::TemporaryData data;
  write_file(data / "a.csv", some_csv(50));
  const DataSet set = import_vectors(
      "kinds", {.csv = data / "a.csv", .target = "kind", .leave_out = {"price"}, .validation = 0.2});
  EXPECT_EQ(set.outputs, 2);
  EXPECT_EQ(set.vectors->inputs, 3);
  const auto train = open_split(open_data_set("kinds"), Split::train),
             rest = open_split(set, Split::validation);
  EXPECT_EQ(train->size(), 40);
  EXPECT_EQ(rest->size(), 10);
  std::vector<int64_t> all;
  for (int64_t i = 0; i < 40; ++i) all.push_back(i);
  const Batch batch = train->read(all);
  EXPECT_LT(batch.inputs.mean(0).abs().max().item<double>(), 1e-6);
  EXPECT_NEAR(batch.inputs.narrow(1, 0, 2).square().mean(0).min().item<double>(), 1.0, 1e-5);
  EXPECT_EQ(batch.inputs.select(1, 2).abs().max().item<double>(), 0.0);  // the constant
  EXPECT_LE(batch.inputs.to(at::kDouble).square().mean(1).sqrt().max().item<double>(),
            set.vectors->input_bound);
  const VectorStatistics s = read_statistics(set.folder).value();
  EXPECT_EQ(s.columns, (std::vector<std::string>{"a", "b", "constant"}));
  EXPECT_EQ(s.outputs, (std::vector<std::string>{"blue", "red"}));
  EXPECT_EQ(s.deviation[2], 1.0);
  for (int64_t i = 0; i < 40; ++i) {  // raw values come back, and with them the class
    const double raw = batch.inputs[i][0].item<double>() * s.deviation[0] + s.mean[0];
    EXPECT_NEAR(raw, std::round(raw), 1e-4);
    EXPECT_EQ(batch.targets[i].item<int64_t>(), std::lround(raw) % 3 == 0 ? 1 : 0);
  }
  EXPECT_ERROR(import_vectors("kinds", {.csv = data / "a.csv", .target = "kind", .leave_out = {"price"}}),
               InputError, "--replace");
}

TEST(ImportedVectors, MayBeNumbersToPredictAndStayAsTheyAre) {
  const test::TemporaryData data;
  write_file(data / "a.csv", some_csv(30));
  const VectorImport options{
      .csv = data / "a.csv", .target = "price", .leave_out = {"kind"}, .regression = true};
  const DataSet set = import_vectors("prices", options);
  EXPECT_TRUE(set.vectors->regression);
  EXPECT_EQ(set.outputs, 1);
  const VectorStatistics s = read_statistics(set.folder).value();
  const Batch batch = open_split(set, Split::validation)->read(std::vector<int64_t>{0, 1});
  const double a = batch.inputs[0][0].item<double>() * s.deviation[0] + s.mean[0];
  const double price = batch.targets[0][0].item<double>() * s.output_deviation[0] + s.output_mean[0];
  EXPECT_NEAR(price, 1000.0 + 5.0 * a, 1e-2);
  VectorImport plain = options;
  plain.standardize = false;
  plain.replace = true;
  const DataSet raw = import_vectors("prices", plain);
  EXPECT_TRUE(read_statistics(raw.folder)->mean.empty());
  EXPECT_GE(open_split(raw, Split::train)->read(std::vector<int64_t>{0}).targets[0][0].item<double>(),
            1000.0);
}

TEST(ImportedVectors, AreRefusedAsAWhole) {
  const test::TemporaryData data;
  write_file(data / "a.csv", "x,y\n1,a\n2,b\n");
  const VectorImport options{.csv = data / "a.csv", .target = "y"};
  const auto refused = [&](const char* name, auto change, const char* part) {
    VectorImport own = options;
    change(own);
    EXPECT_ERROR(import_vectors(name, own), InputError, part);
  };
  refused(
      "v", [](VectorImport& o) { o.validation = 0.0; }, "--validation-share must be above 0");
  refused(
      "v", [](VectorImport& o) { o.validation = 0.9; }, "must be examples to train on");
  refused(
      "cifar10", [](VectorImport&) {}, "is a known data set");
  refused(
      "../v", [](VectorImport&) {}, "cannot be a data set's name");
  const DataSet set = import_vectors("v", {.csv = data / "a.csv", .target = "y", .validation = 0.5});
  EXPECT_ERROR(open_split(set, Split::train, {.standardize = true}), InputError,
               "data.standardize must be false");
  write_file(set.folder / "statistics.json", "{\"schema\":1}");
  EXPECT_ERROR(read_statistics(set.folder), InputError, "is damaged");
  EXPECT_FALSE(read_statistics(data / "nothing"));
}

}  // namespace
}  // namespace bridle
