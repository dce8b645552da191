#include "base/toml_text.h"

#include <fmt/format.h>

#include "bridle/error.h"
#include "file_support.h"

namespace bridle {
namespace {

std::string repeated(const std::string& part, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += part;
  return text;
}

void expect_refused(const std::string& text, const char* part) {
  EXPECT_ERROR(parse_toml(text, "settings", "r.toml"), InputError, part);
}

// Each of these ended the process with signal 11, or would have with a few more levels.
TEST(TomlText, IsRefusedWhereItIsTooDeepForTheParser) {
  const std::string key = repeated("a.", 60'000) + "a";
  for (const std::string& text :
       {key + " = 1\n", "[" + key + "]\n", "[[" + key + "]]\n", "x = { " + key + " = 1 }\n",
        "x = [{ " + key + " = 1 }]\n", repeated("\"a\" . ", 60'000) + "a = 1\n",
        repeated("'' .", 60'000) + "a = 1\n"})
    expect_refused(text, "r.toml, line 1: a key has more than 16 parts");
  for (const std::string& text :
       {"x = " + repeated("[", 100'000), "x = " + repeated("[", 50'000) + repeated("]", 50'000),
        "x = " + repeated("{a=", 100'000), "x = " + repeated("[\n", 100'000),
        "x = " + repeated("[{a=", 50'000)})
    expect_refused(text, "arrays and tables are inside one another");
  expect_refused(repeated("# a comment\n", 100'000), "1200000 bytes; at most 1048576 are read");
}

// What looks like the end of a string and is none must not hide a key.
TEST(TomlText, IsNotTooDeepInStringsAndComments) {
  const std::string deep = repeated("a.", 60'000) + "a", brackets = repeated("[", 1000);
  const toml::table table =
      parse_toml("# " + deep + brackets + "\na = \"" + deep + brackets + "\\\"\"\nb = '" + brackets +
                     "'\nc = \"\"\"\n" + brackets + "\"\"\"\"\"\nd = '''" + deep + "''''\n",
                 "settings", "r.toml");
  EXPECT_EQ(table.size(), 4U);
  expect_refused("x = { s = \"\"\"a\"\"\"\", " + deep + " = 1 }\n", "a key has more than 16 parts");
  expect_refused("x = { s = '''a''''', " + deep + " = 1 }\n", "a key has more than 16 parts");
  expect_refused("s = \"\\\\\"\n" + deep + " = 1\n", "line 2: a key has more than 16 parts");
}

TEST(TomlText, MayHoldManyKeysAndNumbers) {
  std::string text = "values = [" + repeated("0.5, ", 10'000) + "]\n";
  for (int i = 0; i < 10'000; ++i) text += fmt::format("k{}.a.b = 1.5\n", i);
  EXPECT_EQ(parse_toml(text, "settings", "r.toml").size(), 10'001U);
}

TEST(TomlText, SaysWhereItIsNotToml) {
  expect_refused("a = 1\nb = = 2\n", "[settings] r.toml, line 2: this is not TOML: b = = 2");
  expect_refused("a = 1\na = 2\n", "line 2: a key or table comes twice: a = 2");
  EXPECT_ERROR(parse_toml_file("/no/such.toml", "sweep"), InputError, "/no/such.toml: No such file");
}

}  // namespace
}  // namespace bridle
