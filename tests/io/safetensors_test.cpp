#include "bridle/safetensors.h"

#include <ATen/ops/_neg_view.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include "base/files.h"
#include "bridle/error.h"
#include "file_support.h"
#include "io/safetensors_header.h"
#include "io/safetensors_support.h"
#include "support.h"

namespace bridle {
namespace {

using test::entries;
using test::FileSizeLimit;
using test::TemporaryFolder;

SafetensorsFile written_and_read(const SafetensorsFile& file) {
  const TemporaryFolder folder;
  write_safetensors(folder / "a.safetensors", file);
  return read_safetensors(folder / "a.safetensors");
}

TEST(Safetensors, KeepEveryDtypeAndShape) {
  SafetensorsFile file{.metadata = {{"format", "pt"}, {"größe", "\"ß\"\n"}}, .tensors = {}};
  for (const at::ScalarType dtype : {at::kBool, at::kDouble, at::kFloat, at::kHalf, at::kBFloat16, at::kLong,
                                     at::kInt, at::kShort, at::kChar, at::kByte}) {
    const std::string name = c10::toString(dtype);
    file.tensors.emplace_back(name, test::normal({3, 5}, 1).mul(50).abs().to(dtype));
    file.tensors.emplace_back(name + ".scalar", at::ones({}, dtype));
    file.tensors.emplace_back(name + ".empty", at::zeros({4, 0, 2}, dtype));
  }
  const SafetensorsFile again = written_and_read(file);
  EXPECT_EQ(again.metadata, file.metadata);
  ASSERT_EQ(again.tensors.size(), file.tensors.size());
  for (size_t i = 0; i < file.tensors.size(); ++i) {
    EXPECT_EQ(again.tensors[i].first, file.tensors[i].first);
    EXPECT_EQ(again.tensors[i].second.scalar_type(), file.tensors[i].second.scalar_type());
    EXPECT_EQ(again.tensors[i].second.sizes(), file.tensors[i].second.sizes());
    EXPECT_TRUE(at::equal(again.tensors[i].second, file.tensors[i].second)) << file.tensors[i].first;
  }
}

TEST(Safetensors, HaveTheseBytes) {
  const TemporaryFolder folder;
  write_safetensors(folder / "a",
                    {.metadata = {}, .tensors = {{"b", at::arange(3, at::kShort)}, {"a", at::ones({})}}});
  const std::string header =
      R"({"b":{"dtype":"I16","shape":[3],"data_offsets":[0,6]},"a":{"dtype":"F32","shape":[],"data_offsets":[6,10]}})";
  const std::string padding((8 - header.size() % 8) % 8, ' ');
  EXPECT_EQ(read_file(folder / "a"),
            test::safetensors_bytes(header + padding, {"\0\0\1\0\2\0\0\0\x80\x3f", 10}));
  write_safetensors(folder / "empty", {});
  EXPECT_EQ(read_file(folder / "empty"), std::string("\x08\0\0\0\0\0\0\0{}      ", 16));
}

TEST(Safetensors, HaveTheSameBytesForTheSameInput) {
  const TemporaryFolder folder;
  const SafetensorsFile file{.metadata = {{"b", "2"}, {"a", "1"}},
                             .tensors = {{"w", test::normal({7, 3}, 1)}}};
  write_safetensors(folder / "a", file);
  write_safetensors(folder / "b", file);
  write_safetensors(folder / "c", read_safetensors(folder / "a"));
  EXPECT_EQ(read_file(folder / "a"), read_file(folder / "b"));
  EXPECT_EQ(read_file(folder / "a"), read_file(folder / "c"));
}

TEST(Safetensors, TakeViewsAndTensorsThatNeedGradients) {
  const at::Tensor whole = test::normal({6, 8}, 1);
  const SafetensorsFile file{.metadata = {},
                             .tensors = {{"transposed", whole.t()},
                                         {"strided", whole.slice(0, 1, 6, 2)},
                                         {"expanded", whole.slice(0, 0, 1).expand({4, 8})},
                                         {"negated", at::_neg_view(whole)},
                                         {"weight", whole.clone().requires_grad_()}}};
  const SafetensorsFile again = written_and_read(file);
  for (const auto& [name, tensor] : file.tensors) EXPECT_TRUE(at::equal(again.at(name), tensor)) << name;
  EXPECT_TRUE(at::equal(again.at("negated"), -whole));  // its memory holds the other sign
  EXPECT_FALSE(again.at("weight").requires_grad());
}

TEST(Safetensors, MayBeLargerThanTheBufferTheyAreWrittenThrough) {
  const at::Tensor large = at::arange((int64_t{1} << 20) + 12345, at::kDouble);
  EXPECT_TRUE(
      at::equal(written_and_read({.metadata = {}, .tensors = {{"large", large}}}).at("large"), large));
}

TEST(Safetensors, AreLookedUpByName) {
  const SafetensorsFile file{.metadata = {}, .tensors = {{"layer.0", at::ones({})}, {"head", at::zeros({})}}};
  EXPECT_EQ(file.at("layer.0").item<float>(), 1);
  EXPECT_ERROR(file.at("layer.1"), InputError,
               "[safetensors] no tensor \"layer.1\"; did you mean \"layer.0\"?");
  EXPECT_ERROR(SafetensorsFile().at("w"), InputError, "no tensor \"w\": the file has none");
}

TEST(Safetensors, RefuseWhatTheFormatCannotHold) {
  const TemporaryFolder folder;
  const auto write = [&](const std::string& name, const at::Tensor& tensor) {
    write_safetensors(folder / "a", {.metadata = {}, .tensors = {{"w", at::ones({})}, {name, tensor}}});
  };
  EXPECT_ERROR(write("w", at::ones({})), InputError, "/a: tensor \"w\" comes twice; give each its own name");
  EXPECT_ERROR(write("__metadata__", at::ones({})), InputError,
               "has the name of the metadata; choose another name");
  EXPECT_ERROR(write("\xff", at::ones({})), InputError, "is not UTF-8");
  EXPECT_ERROR(write("v", at::ones({2}, at::kComplexFloat)), InputError,
               "tensor \"v\" is of ComplexFloat, which the format does not know; convert it to one of F64");
  EXPECT_ERROR(write("v", at::Tensor()), InputError, "tensor \"v\" is undefined");
  EXPECT_ERROR(write("v", at::ones({2, 2}).to_sparse()), InputError, "tensor \"v\" has no dense values");
  EXPECT_ERROR(write("v", at::empty({2}, at::kMeta)), InputError, "tensor \"v\" has no dense values");
  EXPECT_ERROR(write("v", at::ones(std::vector<int64_t>(65, 1))), InputError,
               "tensor \"v\" has 65 dimensions");
  EXPECT_ERROR(write_safetensors(folder / "a", {.metadata = {{"k", "\xc3"}}, .tensors = {}}), InputError,
               "not UTF-8");
  std::string large;
  large.resize(kSafetensorsLargestHeader, 'x');
  EXPECT_ERROR(write_safetensors(folder / "a", {.metadata = {{"k", large}}, .tensors = {}}), InputError,
               "the header would take 1000000");
  EXPECT_TRUE(entries(folder).empty());
}

TEST(Safetensors, KeepTheOldFileWhereTheNewOneCannotBeWritten) {
  const TemporaryFolder folder;
  write_safetensors(folder / "a", {.metadata = {}, .tensors = {{"w", at::ones({})}}});
  {
    const FileSizeLimit limit(1000);
    EXPECT_ERROR(write_safetensors(folder / "a", {.metadata = {}, .tensors = {{"w", at::zeros({5000})}}}),
                 InputError, "File too large");
  }
  EXPECT_EQ(read_safetensors(folder / "a").at("w").item<float>(), 1);
  EXPECT_EQ(entries(folder), std::vector<std::string>{"a"});
}

TEST(Safetensors, ThatAreDamagedAreRefusedWithTheirPath) {
  const TemporaryFolder folder;
  write_file(folder / "short", "1234");
  EXPECT_ERROR(read_safetensors(folder / "short"), InputError, (folder / "short").string() + ": 4 bytes");
  write_file(folder / "empty", "");
  EXPECT_ERROR(read_safetensors(folder / "empty"), InputError, "/empty: 0 bytes");
  EXPECT_ERROR(read_safetensors(folder / "missing"), InputError, "No such file");
}

}  // namespace
}  // namespace bridle
