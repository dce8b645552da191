#include "io/safetensors_header.h"

#include <nlohmann/json.hpp>
#include <sstream>

#include "bridle/error.h"
#include "file_support.h"

namespace bridle {
namespace {

TEST(SafetensorsHeader, KnowsItsDtypesByTheirWords) {
  std::istringstream words(kSafetensorsDtypes);
  int count = 0;
  for (std::string word; words >> word; ++count) {
    ASSERT_TRUE(dtype_from_safetensors(word)) << word;
    EXPECT_EQ(safetensors_from_dtype(*dtype_from_safetensors(word)), word);
  }
  EXPECT_EQ(count, 10);
  EXPECT_EQ(dtype_from_safetensors("BF16"), at::kBFloat16);
  EXPECT_FALSE(dtype_from_safetensors("bf16"));
  EXPECT_FALSE(safetensors_from_dtype(at::kComplexFloat));
}

TEST(SafetensorsHeader, CountsBytesWithoutOverflow) {
  SafetensorsEntry entry{.name = "w", .dtype = at::kDouble, .shape = {}};
  EXPECT_EQ(entry.byte_count(), 8);
  entry.shape = {3, 5};
  EXPECT_EQ(entry.byte_count(), 120);
  entry.shape = {3, 0};
  EXPECT_EQ(entry.byte_count(), 0);
  entry.shape = {int64_t{1} << 59};
  EXPECT_EQ(entry.byte_count(), uint64_t{1} << 62);
  entry.shape = {int64_t{1} << 60};
  EXPECT_FALSE(entry.byte_count());
  entry.shape = {0, int64_t{1} << 40, int64_t{1} << 40};
  EXPECT_FALSE(entry.byte_count());
}

TEST(SafetensorsHeader, IsPrintedInTheGivenOrderAndPadded) {
  const SafetensorsHeader header{
      .metadata = {{"step", "7"}, {"by", "\"us\""}},
      .entries = {{.name = "z", .dtype = at::kHalf, .shape = {2, 1}, .begin = 0, .end = 4},
                  {.name = "a\n", .dtype = at::kBool, .shape = {}, .begin = 4, .end = 5}}};
  const std::string text = print_safetensors_header(header);
  const std::string wanted = R"({"__metadata__":{"by":"\"us\"","step":"7"},)"
                             R"("z":{"dtype":"F16","shape":[2,1],"data_offsets":[0,4]},)"
                             R"("a\n":{"dtype":"BOOL","shape":[],"data_offsets":[4,5]}})";
  EXPECT_EQ(text.substr(0, wanted.size()), wanted);
  EXPECT_EQ(text.substr(wanted.size()), std::string((8 - wanted.size() % 8) % 8, ' '));
}

TEST(SafetensorsHeader, ShowsNamesThatATerminalCanTake) {
  EXPECT_EQ(in_quotes("layer.0"), "\"layer.0\"");
  EXPECT_EQ(in_quotes("\x1b[31m"), "\"\\u001b[31m\"");
  EXPECT_EQ(in_quotes("\xff"), "\"\xEF\xBF\xBD\"");
  EXPECT_EQ(in_quotes(std::string(1000, 'x')), "\"" + std::string(100, 'x') + "...\"");
}

TEST(SafetensorsHeader, IsRefusedWithPathAndAdvice) {
  EXPECT_ERROR(refuse_safetensors("a/b", "what", "do this"), InputError, "[safetensors] a/b: what; do this");
  EXPECT_ERROR(refuse_safetensors("a/b", "what"), InputError, "write or fetch it again");
}

}  // namespace
}  // namespace bridle
