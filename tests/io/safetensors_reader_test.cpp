#include "io/safetensors_reader.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>

#include "bridle/error.h"
#include "bridle/safetensors.h"
#include "file_support.h"

namespace bridle {
namespace {

TEST(SafetensorsReader, CopiesAndHashesTheSameBytes) {
  const test::TemporaryFolder folder;
  const at::Tensor large = at::arange(3'000'000, at::kFloat);  // more than one buffer
  const at::Tensor small = at::arange(6, at::kHalf).view({2, 3});
  const std::string digest =
      write_safetensors(folder / "file", {.metadata = {}, .tensors = {{"a", large}, {"b", small}}});
  EXPECT_EQ(digest, sha256_of_file(folder / "file"));
  InputFile file(folder / "file");
  SafetensorsReader reader(file, 1000);
  ASSERT_EQ(reader.entries().size(), 2U);
  const std::vector<at::Tensor> tensors{at::empty({3'000'000}, at::kFloat), at::empty({2, 3}, at::kHalf)};
  EXPECT_EQ(reader.read_into(tensors), digest);
  EXPECT_TRUE(tensors[0].equal(large));
  EXPECT_TRUE(tensors[1].equal(small));
}

TEST(SafetensorsReader, ComparesTheHeaderWithTheFileFirst) {
  const test::TemporaryFolder folder;
  write_safetensors(folder / "file", {.metadata = {}, .tensors = {{"a", at::arange(6, at::kFloat)}}});
  const auto read = [&](size_t largest) {
    InputFile file(folder / "file");
    const SafetensorsReader reader(file, largest);
  };
  EXPECT_ERROR(read(10), InputError, "more than the 10 that are allowed");
  std::filesystem::resize_file(folder / "file", uint64_t{1} << 40U);
  EXPECT_ERROR(read(1000), InputError, "bytes follow the last tensor");
  std::filesystem::resize_file(folder / "file", 80);
  EXPECT_ERROR(read(1000), InputError, "go past the");
  std::filesystem::resize_file(folder / "file", 4);
  EXPECT_ERROR(read(1000), InputError, "4 bytes, but the header's length");
}

}  // namespace
}  // namespace bridle
