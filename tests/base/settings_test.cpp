#include "base/settings.h"

#include "bridle/error.h"
#include "file_support.h"

namespace bridle {
namespace {

enum class Colour { red, green, blue };

const char* word(Colour colour) {
  switch (colour) {
    case Colour::red:
      return "red";
    case Colour::green:
      return "green";
    case Colour::blue:
      return "blue";
  }
  return nullptr;
}

struct Options {
  bool flag = false;
  int64_t count = 3;
  uint64_t seed = 1;
  double rate = 0.1;
  std::string word = "plain";
  std::vector<int64_t> sizes = {1, 2};
  Colour colour = Colour::green;
  Colour frame = Colour::green;  // a copy of it
};

Settings settings_of(Options& options) {
  return {{"a.flag", &options.flag, ""},
          {"a.count", &options.count, ""},
          {"a.seed", &options.seed, ""},
          {"b.rate", &options.rate, ""},
          {"b.word", &options.word, ""},
          {"b.sizes", &options.sizes, ""},
          {"c.colour", choice(&options.colour), "", {}, {choice(&options.frame)}}};
}

TEST(Settings, AreReadFromToml) {
  Options options;
  read_toml(settings_of(options),
            "[a]\nflag = true\ncount = -7\n[b]\nrate = 2\nword = \"x y\"\nsizes = [4, 5, 6]\n", "test");
  EXPECT_TRUE(options.flag);
  EXPECT_EQ(options.count, -7);
  EXPECT_EQ(options.seed, 1U);
  EXPECT_EQ(options.rate, 2.0);
  EXPECT_EQ(options.word, "x y");
  EXPECT_EQ(options.sizes, (std::vector<int64_t>{4, 5, 6}));
}

TEST(Settings, ArePrintedAndReadBackToTheLastBit) {
  Options options{
      .flag = true, .count = -1, .seed = 1U << 31, .rate = 0.1 + 0.2, .word = "quo\"te\\\n", .sizes = {}};
  const std::string text = to_toml(settings_of(options));
  Options copy;
  read_toml(settings_of(copy), text, "test");
  EXPECT_EQ(copy.rate, options.rate);
  EXPECT_EQ(copy.word, options.word);
  EXPECT_TRUE(copy.sizes.empty());
  EXPECT_EQ(to_toml(settings_of(copy)), text);
  options.rate = 3.0;
  EXPECT_NE(to_toml(settings_of(options)).find("rate = 3.0\n"), std::string::npos);
}

TEST(Settings, AreSetOneByOne) {
  Options options;
  const Settings settings = settings_of(options);
  set_value(settings, "a.flag=true");
  set_value(settings, "b.rate=1e-3");
  set_value(settings, "b.word=soft_cap");
  set_value(settings, "b.sizes=[7]");
  EXPECT_TRUE(options.flag);
  EXPECT_EQ(options.rate, 1e-3);
  EXPECT_EQ(options.word, "soft_cap");
  EXPECT_EQ(options.sizes, std::vector<int64_t>{7});
  set_value(settings, "b.word=\"two words\"");
  EXPECT_EQ(options.word, "two words");
}

TEST(Settings, ChooseAmongTheWordsOfAnEnum) {
  Options options;
  const Settings settings = settings_of(options);
  EXPECT_EQ(value_text(settings.back()), "'green'");
  read_toml(settings, "[c]\ncolour = \"blue\"\n", "r.toml");
  EXPECT_EQ(options.colour, Colour::blue);
  EXPECT_EQ(options.frame, Colour::blue);
  set_value(settings, "c.colour=red");
  EXPECT_EQ(options.colour, Colour::red);
  set_value(settings, "c.colour='green'");
  EXPECT_EQ(options.frame, Colour::green);
  EXPECT_ERROR(read_toml(settings, "[c]\ncolour = \"grey\"\n", "r.toml"), InputError,
               "r.toml: c.colour must be one of red, green, blue, got 'grey'");
  EXPECT_ERROR(read_toml(settings, "[c]\ncolour = 1\n", "r.toml"), InputError,
               "c.colour must be one of red, green, blue, got 1");
  EXPECT_ERROR(set_value(settings, "c.colour=Red"), InputError, "c.colour must be one of red, green, blue");
  EXPECT_EQ(options.colour, Colour::green);
  EXPECT_EQ(options.frame, Colour::green);
  Options copy;
  read_toml(settings_of(copy), to_toml(settings), "test");
  EXPECT_EQ(copy.colour, Colour::green);
}

TEST(Settings, ReadAChoiceThatWasASwitchBefore) {
  Colour colour = Colour::green;
  std::string text;
  const Settings settings{{"a.colour", choice(&colour, "red", "blue"), ""}, {"a.text", &text, ""}};
  read_toml(settings, "[a]\ncolour = true", "x.toml");
  EXPECT_EQ(colour, Colour::blue);
  set_value(settings, "a.colour=false");
  EXPECT_EQ(colour, Colour::red);
  set_value(settings, "a.colour=green");
  EXPECT_EQ(to_toml(settings), "[a]\ncolour = 'green'\ntext = ''\n");
  set_value(settings, "a.text=true");
  EXPECT_EQ(text, "true");
  EXPECT_ERROR(read_toml({{"a.colour", choice(&colour), ""}}, "[a]\ncolour = true", "x.toml"), InputError,
               "a.colour must be one of red, green, blue, got true");
}

TEST(Settings, AreCheckedAgainstTheirRanges) {
  int64_t count = 3;
  double rate = 0.5;
  constexpr Range small{[](double x) { return x < 4; }, "below 4"};
  const Settings settings{{"count", &count, "", small}, {"rate", &rate, "", small}, {"free", &count, ""}};
  check_ranges(settings, "model");
  count = 4;
  EXPECT_ERROR(check_ranges(settings, "model"), InputError, "[model] count must be below 4, got 4");
  count = 3;
  rate = 4.5;
  EXPECT_ERROR(check_ranges(settings, "model"), InputError, "rate must be below 4, got 4.5");
}

TEST(Settings, ChooseListsOfTheWordsOfAnEnum) {
  std::vector<Colour> colours = {Colour::red};
  const Settings settings = {{"c.colours", choice_list(&colours), ""}};
  EXPECT_EQ(value_text(settings[0]), "['red']");
  read_toml(settings, "[c]\ncolours = [\"blue\", \"green\"]\n", "r.toml");
  EXPECT_EQ(colours, (std::vector<Colour>{Colour::blue, Colour::green}));
  const std::string text = to_toml(settings);
  set_value(settings, "c.colours=[]");
  EXPECT_TRUE(colours.empty());
  read_toml(settings, text, "test");
  EXPECT_EQ(colours, (std::vector<Colour>{Colour::blue, Colour::green}));
  for (const char* wrong : {"[\"grey\"]", "\"red\"", "[1]"})
    EXPECT_ERROR(set_value(settings, std::string("c.colours=") + wrong), InputError,
                 "c.colours must be a list of words of red, green, blue");
  EXPECT_EQ(colours.size(), 2U);
}

TEST(Settings, TellWhichKeysATextNamesAndWhichValuesDiffer) {
  Options options, other;
  EXPECT_EQ(read_toml(settings_of(options), "[a]\ncount = 7\n[b]\nsizes = []\n", "test"),
            (std::set<std::string>{"a.count", "b.sizes"}));
  EXPECT_TRUE(differences(settings_of(other), settings_of(other)).empty());
  const auto found = differences(settings_of(options), settings_of(other));
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].key, "a.count");
  EXPECT_EQ(found[0].first, "7");
  EXPECT_EQ(found[0].second, "3");
}

TEST(Settings, RefuseWhatTheyDoNotKnow) {
  Options options;
  const Settings settings = settings_of(options);
  EXPECT_ERROR(read_toml(settings, "[b]\nrat = 1\n", "r.toml"), InputError,
               "r.toml: there is no key 'b.rat'; did you mean 'b.rate'?");
  EXPECT_ERROR(read_toml(settings, "[b]\nrate = \"1\"\n", "r.toml"), InputError,
               "b.rate must be a number, got '1'");
  EXPECT_ERROR(read_toml(settings, "[a]\ncount = 1.5\n", "r.toml"), InputError,
               "a.count must be an integer, got 1.5");
  EXPECT_ERROR(read_toml(settings, "[a]\nseed = -1\n", "r.toml"), InputError,
               "a.seed must be a nonnegative integer, got -1");
  EXPECT_ERROR(read_toml(settings, "[b]\nsizes = [1, \"x\"]\n", "r.toml"), InputError,
               "b.sizes must be a list of integers, got ");
  EXPECT_ERROR(read_toml(settings, "[a]\n\nflag = = 1\n", "r.toml"), InputError, "r.toml, line 3");
  EXPECT_ERROR(set_value(settings, "b.rate"), InputError, "it must be section.key=value");
  EXPECT_ERROR(set_value(settings, "b.rate=fast"), InputError, "--set b.rate=fast");
  EXPECT_ERROR(set_value(settings, "b.rte=1"), InputError, "did you mean 'b.rate'?");
  EXPECT_ERROR(set_value(settings, "rate=1"), InputError, "there is no key 'rate'; did you mean 'b.rate'?");
  EXPECT_ERROR(set_value(settings, "cuont=1"), InputError, "did you mean 'a.count'?");
}

TEST(Settings, NameEveryKeyThatAWordWithoutItsSectionMayMean) {
  int64_t first = 0, second = 0;
  const Settings settings{{"a.method", &first, ""}, {"b.method", &second, ""}, {"b.other", &second, ""}};
  EXPECT_ERROR(set_value(settings, "method=1"), InputError, "did you mean 'a.method' or 'b.method'?");
}

}  // namespace
}  // namespace bridle
