#include "io/safetensors_decode.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "bridle/error.h"
#include "file_support.h"
#include "io/safetensors_support.h"

namespace bridle {
namespace {

using test::as_bytes;
using test::safetensors_bytes;

using Entries = std::vector<std::string>;

std::string header(const Entries& entries) { return fmt::format("{{{}}}", fmt::join(entries, ",")); }

SafetensorsFile decode(const Entries& entries, const std::string& data) {
  return decode_safetensors(as_bytes(safetensors_bytes(header(entries), data)), "a.st");
}

std::string entry(const std::string& name, const std::string& dtype, const std::string& shape,
                  const std::string& offsets) {
  return fmt::format(R"("{}":{{"dtype":"{}","shape":[{}],"data_offsets":[{}]}})", name, dtype, shape,
                     offsets);
}

TEST(SafetensorsDecode, CopiesValues) {
  const SafetensorsFile file = decode({entry("w", "I16", "2", "0,4")}, {"\1\0\xff\xff", 4});
  ASSERT_EQ(file.tensors.size(), 1);
  EXPECT_EQ(file.at("w").scalar_type(), at::kShort);
  EXPECT_EQ(file.at("w")[0].item<int>(), 1);
  EXPECT_EQ(file.at("w")[1].item<int>(), -1);
  EXPECT_FALSE(file.at("w").is_view());
}

TEST(SafetensorsDecode, ListsTensorsInTheOrderOfTheirBytes) {
  const SafetensorsFile file = decode(
      {entry("c", "U8", "", "2,3"), entry("none", "F64", "3,0", "2,2"), entry("a", "U8", "2", "0,2")}, "xyz");
  ASSERT_EQ(file.tensors.size(), 3);
  EXPECT_EQ(file.tensors[0].first, "a");
  EXPECT_EQ(file.tensors[1].first, "none");
  EXPECT_EQ(file.tensors[2].first, "c");
  EXPECT_EQ(file.at("none").sizes(), (std::vector<int64_t>{3, 0}));
  EXPECT_EQ(file.at("c").dim(), 0);
  EXPECT_EQ(file.at("c").item<int>(), 'z');
}

TEST(SafetensorsDecode, TakesTensorsThatAreNotAligned) {
  const std::string text = header({entry("a", "U8", "1", "0,1"), entry("b", "F64", "1", "1,9")});
  for (size_t shift = 0; shift < 8; ++shift) {
    const std::string bytes =
        std::string(shift, 'x') + safetensors_bytes(text, {"\5\0\0\0\0\0\0\xf8\x3f", 9});  // 5, 1.5
    const SafetensorsFile file = decode_safetensors(as_bytes(bytes).subspan(shift), "a.st");
    EXPECT_EQ(file.at("b").item<double>(), 1.5);
  }
}

TEST(SafetensorsDecode, RefusesHeadersThatDoNotFit) {
  EXPECT_ERROR(decode_safetensors({}, "a.st"), InputError,
               "[safetensors] a.st: 0 bytes, but the header's length");
  EXPECT_ERROR(decode_safetensors(as_bytes("1234567"), "a.st"), InputError,
               "7 bytes, but the header's length");
  const std::string bytes = safetensors_bytes("{}", "");
  EXPECT_TRUE(decode_safetensors(as_bytes(bytes), "a.st").tensors.empty());
  EXPECT_ERROR(decode_safetensors(as_bytes(bytes).first(9), "a.st"), InputError,
               "a header of 2 bytes, but only 1 follow");
  EXPECT_ERROR(decode_safetensors(as_bytes("\xff\xff\xff\xff\xff\xff\xff\xff{}"), "a.st"), InputError,
               "a header of 18446744073709551615 bytes, more than the 100000000 that are allowed");
  EXPECT_ERROR(decode_safetensors(as_bytes({"\x01\xe1\xf5\x05\0\0\0\0", 8}), "a.st"), InputError,
               "a header of 100000001 bytes, more than");
  EXPECT_ERROR(decode_safetensors(as_bytes({"\x00\xe1\xf5\x05\0\0\0\0", 8}), "a.st"), InputError,
               "a header of 100000000 bytes, but only 0 follow");
  EXPECT_ERROR(decode_safetensors(as_bytes(safetensors_bytes("", "")), "a.st"), InputError,
               "does not begin with '{'");
}

TEST(SafetensorsDecode, RefusesPlacesThatDoNotFitTheTensor) {
  EXPECT_ERROR(decode({entry("w", "U8", "1", "3,2")}, "xyz"), InputError,
               "tensor \"w\": data_offsets [3, 2] end before they begin");
  EXPECT_ERROR(decode({entry("w", "U8", "4", "0,4")}, "xyz"), InputError,
               "tensor \"w\": data_offsets [0, 4] go past the 3 bytes of data");
  EXPECT_ERROR(decode({entry("w", "F16", "2", "0,3")}, "xyz"), InputError,
               "tensor \"w\": data_offsets [0, 3] hold 3 bytes, but shape [2] of F16 takes 4");
  EXPECT_ERROR(decode({entry("w", "U8", "4294967296,4294967296", "0,3")}, "xyz"), InputError,
               "tensor \"w\": shape [4294967296, 4294967296] has more bytes than 2^63 - 1");
  EXPECT_ERROR(decode({entry("w", "U8", "0,4294967296,4294967296", "0,0")}, ""), InputError,
               "has more bytes than 2^63 - 1");
}

TEST(SafetensorsDecode, RefusesOverlapsHolesAndWhatFollows) {
  const std::string first = entry("a", "U8", "2", "0,2");
  EXPECT_ERROR(
      decode({first, entry("b", "U8", "2", "1,3")}, "xyz"), InputError,
      "tensor \"b\" begins at byte 1, overlapping the bytes before byte 2, where the one before it ends");
  EXPECT_ERROR(decode({first, entry("b", "U8", "2", "0,2")}, "xy"), InputError,
               "tensor \"b\" begins at byte 0");
  EXPECT_ERROR(decode({first, entry("b", "U8", "0", "1,1")}, "xy"), InputError,
               "tensor \"b\" begins at byte 1");
  EXPECT_ERROR(decode({first, entry("b", "U8", "1", "3,4")}, "wxyz"), InputError,
               "tensor \"b\" begins at byte 3, leaving a hole after byte 2");
  EXPECT_ERROR(decode({entry("a", "U8", "1", "1,2")}, "xy"), InputError, "leaving a hole after byte 0");
  EXPECT_ERROR(decode({entry("a", "U8", "1", "0,1")}, "xy"), InputError, "1 bytes follow the last tensor");
  EXPECT_ERROR(decode({}, "x"), InputError, "1 bytes follow the last tensor");
}

TEST(SafetensorsDecode, RefusesTruthValuesOtherThanZeroAndOne) {
  EXPECT_EQ(decode({entry("b", "BOOL", "2", "0,2")}, {"\0\1", 2}).at("b").sum().item<int>(), 1);
  EXPECT_ERROR(decode({entry("b", "BOOL", "2", "0,2")}, {"\0\2", 2}), InputError,
               "tensor \"b\": a BOOL holds a byte other than 0 and 1");
}

}  // namespace
}  // namespace bridle
