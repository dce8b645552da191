#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include "base/files.h"
#include "bridle/error.h"
#include "data/table.h"
#include "file_support.h"

namespace bridle {
namespace {

Table read(const test::TemporaryFolder& folder, const std::string& text, VectorImport options) {
  write_file(folder / "a.csv", text);
  options.csv = folder / "a.csv";
  return read_csv(options);
}

TEST(ACsvFile, GivesColumnsAndClassesWithQuotesAndBothLineEnds) {
  const test::TemporaryFolder folder;
  const Table table = read(
      folder,
      "\xEF\xBB\xBFheight,\"a, b\",kind,note\r\n1.5,-2e1,\"say \"\"x\"\"\",n\n\n+3, 4 ,blue,\"two\nlines\"\n"
      "0,0,blue,",
      {.target = "kind", .leave_out = {"note"}});
  EXPECT_EQ(table.columns, (std::vector<std::string>{"height", "a, b"}));
  EXPECT_EQ(table.outputs, (std::vector<std::string>{"blue", "say \"x\""}));
  EXPECT_TRUE(table.inputs.equal(at::tensor({1.5, -20.0, 3.0, 4.0, 0.0, 0.0}, at::kDouble).view({3, 2})));
  EXPECT_TRUE(table.targets.equal(at::tensor({1, 0, 0}, at::kLong)));
}

TEST(ACsvFile, GivesNumbersToPredictAndClassesOfNumbersInTheirOrder) {
  const test::TemporaryFolder folder;
  const std::string text = "x,y\n1,10\n2,9\n3,10\n";
  const Table numbers = read(folder, text, {.target = "y", .regression = true});
  EXPECT_TRUE(numbers.targets.equal(at::tensor({10.0, 9.0, 10.0}, at::kDouble).view({3, 1})));
  EXPECT_EQ(numbers.outputs, std::vector<std::string>{"y"});
  const Table classes = read(folder, text, {.target = "y"});
  EXPECT_EQ(classes.outputs, (std::vector<std::string>{"9", "10"}));
  EXPECT_TRUE(classes.targets.equal(at::tensor({1, 0, 1}, at::kLong)));
}

TEST(ACsvFile, IsRefusedByLineAndColumn) {
  const test::TemporaryFolder folder;
  const auto refused = [&](const std::string& text, const char* part,
                           VectorImport options = {.target = "y"}) {
    EXPECT_ERROR(read(folder, text, options), InputError, part);
  };
  refused("", "must have a line of column names, and is empty");
  refused("x,y\n", "no line of numbers");
  refused("x,z\n1,2\n", "there is no column 'y'; did you mean");
  refused("x,x,y\n1,2,3\n", "a column's name comes twice");
  refused("x,y\n1,2\n1\n", "line 3: 1 fields, and 2 columns have names");
  refused("x,y\n1,2\nabc,2\n", "line 3: 'x' must be a finite number, got 'abc'");
  refused("x,y\n1,2\nnan,3\n", "line 3: 'x' must be a finite number, got 'nan'");
  refused("x,y\n1,2\n,3\n", "line 3: 'x' must be a finite number, got ''");
  refused("x,y\n1,2\n1e999,3\n", "'x' must be a finite number");
  refused("x,y\n1,2\n2,\n", "line 3: 'y' is empty");
  refused("x,y\n1,2\n2,2\n", "at least two classes");
  refused("y\n1\n2\n", "no column is left");
  refused("x,y\n1,\"2\n", "a quote that is never closed");
  refused("x,y\n1,\"2\"3\n", "text after a closing quote");
  refused("x,y\n1,2\"\n", "a quote inside a field");
  refused("x,y\n1,a\n", "'y' must be a finite number, got 'a'", {.target = "y", .regression = true});
  EXPECT_ERROR(read_csv({.csv = folder / "none.csv", .target = "y"}), InputError, "none.csv");
}

}  // namespace
}  // namespace bridle
