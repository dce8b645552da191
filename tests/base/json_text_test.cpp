#include "base/json_text.h"

#include <gtest/gtest.h>

#include "bridle/error.h"
#include "file_support.h"

namespace bridle {
namespace {

TEST(JsonText, IsTakenWholeAndWithoutRepeatedKeys) {
  const auto json = parse_json(R"({"a": {"x": 1}, "b": {"x": [1, {"x": 2}]}})", "test", "file");
  EXPECT_EQ(json["b"]["x"][1]["x"], 2);
  for (const char* damaged : {"", "{", "{\"a\": 1", "nonsense", "{} {}"})
    EXPECT_ERROR(parse_json(damaged, "test", "file"), InputError, "file is not JSON");
  EXPECT_ERROR(parse_json(R"({"a": NaN})", "test", "file"), InputError, "it holds NaN");
  EXPECT_ERROR(parse_json(R"({"a": 1e999})", "test", "file"), InputError, "beyond a double");
  EXPECT_FALSE(json_flaw(R"({"NaN": "\"NaN"})"));
  EXPECT_ERROR(parse_json(R"({"a": 1, "b": {"c": 1, "c": 1}})", "test", "file"), InputError,
               "'c' comes twice");
  EXPECT_ERROR(parse_json(R"({"a": 1, "a": 2})", "test", "file"), InputError, "'a' comes twice");
}

}  // namespace
}  // namespace bridle
