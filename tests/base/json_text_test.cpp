#include "base/json_text.h"

#include <gtest/gtest.h>

#include "bridle/error.h"
#include "file_support.h"

namespace bridle {
namespace {

using Json = nlohmann::ordered_json;

TEST(JsonText, IsReadInItsOrder) {
  const auto json =
      parse_json(R"({"b": {"x": 1}, "a": {"x": [1, {"x": 2}], "\ud83d\ude00": -1.5e-3}})", "test", "file");
  EXPECT_EQ(json.begin().key(), "b");
  EXPECT_EQ(json["a"]["x"][1]["x"], 2);
  EXPECT_FALSE(json_flaw(" [1, -1, 0, 0.0, -0.0, 9007199254740991, -9007199254740991, 1e308, 1e-400] "));
}

TEST(JsonText, IsRefusedWhereReadersDisagree) {
  const std::string zero("{}\0{}", 5);
  const std::pair<std::string, const char*> cases[] = {
      {"", "byte 1"},
      {"{", "truncated or damaged"},
      {"{} {}", "truncated or damaged"},
      {zero, "a zero byte"},
      {"\xEF\xBB\xBF{}", "a byte-order mark"},
      {"[NaN]", "truncated or damaged"},
      {"[-Infinity]", "truncated or damaged"},
      {"[01]", "truncated or damaged"},
      {"[1.]", "truncated or damaged"},
      {"[1,]", "truncated or damaged"},
      {"[1] // one", "truncated or damaged"},
      {"[1e400]", "beyond a double"},
      {"[-1e400]", "beyond a double"},
      {"[-0]", "-0"},
      {"[9007199254740992]", "beyond 2^53"},
      {"[-9007199254740992]", "beyond 2^53"},
      {"[18446744073709551616]", "beyond 2^53"},
      {R"(["\ud800"])", "truncated or damaged"},
      {R"(["\udc00\ud800"])", "truncated or damaged"},
      {"[\"\xff\"]", "truncated or damaged"},
      {"[\"\xed\xa0\x80\"]", "truncated or damaged"},
      {"[\"\xc0\x80\"]", "truncated or damaged"},
      {"[\"\t\"]", "truncated or damaged"},
      {R"({"a": 1, "a": 2})", "'a' comes twice"},
      {R"({"a": 1, "b": [{"c": 1, "\u0063": 1}]})", "'c' comes twice"},
      {std::string(17, '['), "nested more than 16 deep"},
      {std::string(1000000, '['), "nested more than 16 deep"},
      {std::string(kLargestJson + 1, ' '), "more than 4194304"},
  };
  std::string many = "{\"k\": 0";
  for (int i = 0; i < 1000; ++i) many += ", \"" + std::to_string(i) + "\": 0";
  EXPECT_ERROR(parse_json(many + "}", "test", "file"), InputError, "more than 1000 keys");
  for (const auto& [text, part] : cases) EXPECT_ERROR(parse_json(text, "test", "file"), InputError, part);
  EXPECT_FALSE(json_flaw(std::string(16, '[') + std::string(16, ']')));
}

TEST(JsonText, IsTheSameInTypeAndValueWhateverTheOrderOfKeys) {
  const auto same = [](const char* a, const char* b) { return same_json(Json::parse(a), Json::parse(b)); };
  EXPECT_TRUE(
      same(R"({"a": [1, "x", null], "b": {"c": 0.5}})", R"({"b": {"c": 5e-1}, "a": [1, "x", null]})"));
  EXPECT_TRUE(same_json(Json(1), Json(1U)));
  for (const char* other : {"1.0", "true", "2", "\"1\"", "[1]", "null"})
    EXPECT_FALSE(same("1", other)) << other;
  EXPECT_FALSE(same(R"({"a": 1})", R"({"a": 1, "b": 1})"));
  EXPECT_FALSE(same(R"({"a": 1})", R"({"b": 1})"));
  EXPECT_FALSE(same("[1, 2]", "[2, 1]"));
}

TEST(JsonText, IsCutForMessages) {
  EXPECT_EQ(shown(Json("a")), "\"a\"");
  EXPECT_EQ(shown(Json(std::string(1000, 'a'))).size(), 103U);
}

}  // namespace
}  // namespace bridle
