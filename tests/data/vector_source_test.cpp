#include "data/vector_source.h"

#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include "base/files.h"
#include "bridle/error.h"
#include "file_support.h"
#include "support.h"

namespace bridle {
namespace {

TEST(VectorSource, ReadsBackWhatWasWritten) {
  const test::TemporaryFolder folder;
  const at::Tensor x = test::normal({5, 3}, 1, at::kFloat), y = test::normal({5, 2}, 2, at::kFloat);
  write_vector_file(folder / "r.f32", x, y);
  const auto file = std::make_shared<VectorFile>(DataFile{folder / "r.f32", 5, ""},
                                                 VectorLayout{.inputs = 3, .regression = true}, 2);
  const VectorSource part(file, 1, 5);
  EXPECT_EQ(part.size(), 4);
  const Batch batch = part.read(std::vector<int64_t>{2, 0});
  EXPECT_TRUE(batch.inputs.equal(x.index_select(0, at::tensor({3, 1}, at::kLong))));
  EXPECT_TRUE(batch.targets.equal(y.index_select(0, at::tensor({3, 1}, at::kLong))));
  write_vector_file(folder / "c.f32", x, at::tensor({0, 2, 1, 0, 2}, at::kLong));
  const VectorSource classes(
      std::make_shared<VectorFile>(DataFile{folder / "c.f32", 5, ""}, VectorLayout{.inputs = 3}, 3), 0, 5);
  EXPECT_TRUE(classes.read(std::vector<int64_t>{1, 4}).targets.equal(at::tensor({2, 2}, at::kLong)));
}

TEST(VectorSource, RefusesAFileOfAnotherSizeAndLabelsThatAreNoClass) {
  const test::TemporaryFolder folder;
  write_vector_file(folder / "c.f32", test::normal({5, 3}, 1), at::tensor({0, 2, 1, 0, 2}, at::kLong));
  const DataFile file{folder / "c.f32", 5, ""};
  EXPECT_ERROR(VectorFile(file, VectorLayout{.inputs = 4}, 3), InputError, "are not 5 rows of 5 numbers");
  const auto two = std::make_shared<VectorFile>(file, VectorLayout{.inputs = 3}, 2);
  EXPECT_ERROR(VectorSource(two, 0, 5).read(std::vector<int64_t>{1}), InputError,
               "a label is not one of 0 … 1");
  EXPECT_ERROR(VectorSource(two, 3, 3), InputError, "is empty");
}

}  // namespace
}  // namespace bridle
