#include "bridle/data.h"
#include "bridle/error.h"
#include "data_support.h"

namespace bridle {
namespace {

using test::counting;
using test::TemporaryFolder;
using test::write_shards;

TEST(Splits, OfTokensAreDisjointParts) {
  const TemporaryFolder folder;
  const DataSet data{.name = "d",
                     .outputs = 100,
                     .train = write_shards(folder, counting(100)),
                     .validation = {{folder / "train_000000.bin", 100}}};
  const SourceOptions options{.sequence_length = 4, .held_out = 0.1};
  EXPECT_EQ(open_split(data, Split::train, options)->size(), 86);
  EXPECT_EQ(open_split(data, Split::validation, options)->size(), 96);
  const auto held_out = open_split(data, Split::held_out, options);
  EXPECT_EQ(held_out->size(), 6);
  const std::vector<int64_t> first{0};
  EXPECT_EQ(held_out->read(first).inputs[0][0].item<int64_t>(), 90);
}

TEST(Splits, OfValidationMayBeOneSourceAlone) {
  const TemporaryFolder folder;
  const auto files = write_shards(folder, counting(100), 50);
  const DataSet data{.name = "d",
                     .outputs = 100,
                     .train = files,
                     .validation = {{files[0].path, 50, "a"}, {files[1].path, 50, "b"}},
                     .sources = {{.name = "a"}, {.name = "b"}}};
  const std::vector<int64_t> first{0};
  EXPECT_EQ(open_split(data, Split::validation, {.sequence_length = 4})->size(), 96);
  const auto source = open_split(data, Split::validation, {.sequence_length = 4, .source = "b"});
  EXPECT_EQ(source->size(), 46);
  EXPECT_EQ(source->read(first).inputs[0][0].item<int64_t>(), 50);
  EXPECT_ERROR(open_split(data, Split::validation, {.source = "c"}), InputError,
               "source must be one of a, b, got c");
  EXPECT_ERROR(open_split(data, Split::train, {.source = "a"}), InputError,
               "'d' has no train files of one source alone, got source a");
}

TEST(Splits, SayWhatIsWrong) {
  const TemporaryFolder folder;
  DataSet data{.name = "d", .outputs = 100, .train = write_shards(folder, counting(100))};
  EXPECT_ERROR(open_split(data, Split::validation), InputError, "'d' has no validation files");
  EXPECT_ERROR(open_split(data, Split::train, {.held_out = 1.0}), InputError,
               "held_out must be at least 0 and below 1, got 1");
  EXPECT_ERROR(open_split(data, Split::held_out, {.sequence_length = 4}), InputError, "has 0");
  data.kind = DataKind::tokenizer;
  EXPECT_ERROR(open_split(data, Split::train), InputError, "is a tokenizer");
}

}  // namespace
}  // namespace bridle
