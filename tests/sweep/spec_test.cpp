#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/files.h"
#include "bridle/error.h"
#include "bridle/sweep.h"
#include "file_support.h"

namespace bridle {
namespace {

class SweepSpecTest : public testing::Test {
 protected:
  void SetUp() override {
    write_file(folder_ / "recipe.toml", "[optimizer]\nlr = 0.1\n[training]\nsteps = 7\n");
  }
  Sweep read(const std::string& text) {
    write_file(folder_ / "sweep.toml", text);
    return read_sweep(folder_ / "sweep.toml");
  }
  std::string refusal(const std::string& text) {
    try {
      read(text);
    } catch (const InputError& error) {
      return error.what();
    }
    return "";
  }
  test::TemporaryFolder folder_;
};

TEST_F(SweepSpecTest, MakesARunOfEveryCombination) {
  const Sweep sweep = read(
      "recipe = 'recipe.toml'\n[set]\n'training.seed' = 3\n[grid]\n'optimizer.lr' = [0.1, 0.2]\n"
      "'constraint.method' = ['soft_cap', 'normalize']\n'constraint.sigma_max' = { linear = [1, 3], count = "
      "3 }\n");
  ASSERT_EQ(sweep.runs.size(), 12U);
  EXPECT_EQ(sweep.results, folder_ / "sweep.csv");  // its own, whatever else is in the folder
  std::set<std::vector<std::string>> settings;
  for (const SweepRun& run : sweep.runs) {
    settings.insert(run.set);
    EXPECT_EQ(run.steps, 7);
    EXPECT_EQ(run.varied.size(), 3U);
    EXPECT_NE(std::find(run.set.begin(), run.set.end(), "training.seed=3"), run.set.end());
  }
  EXPECT_EQ(settings.size(), 12U);
}

TEST_F(SweepSpecTest, WritesNumbersAsPeopleDo) {
  const Sweep sweep =
      read("recipe = 'recipe.toml'\n[grid]\noptimizer.lr = [0.1]\n");  // without quotes as well
  EXPECT_EQ(sweep.runs[0].varied.at("optimizer.lr"), "0.1");
}

TEST_F(SweepSpecTest, SpacesValuesByTheirLogarithm) {
  const Sweep sweep =
      read("recipe = 'recipe.toml'\n[grid]\n'optimizer.lr' = { log10 = [-1, 1], count = 3 }\n");
  std::set<std::string> values;
  for (const SweepRun& run : sweep.runs) values.insert(run.varied.at("optimizer.lr"));
  EXPECT_EQ(values, (std::set<std::string>{"0.1", "1", "10"}));
}

TEST_F(SweepSpecTest, TakesGroupsInTurnAndSharesWhatIsAboveThem) {
  const Sweep sweep = read(
      "recipe = 'recipe.toml'\ntake = 2\n[set]\n'training.steps' = 9\n[grid]\n'training.seed' = [0, 1, 2]\n"
      "[[group]]\nname = 'a'\n[group.set]\n'optimizer.lr' = 1\n[[group]]\nname = "
      "'b'\n[group.grid]\n'training.seed' = [5]\n");
  ASSERT_EQ(sweep.runs.size(), 3U);
  EXPECT_EQ(sweep.runs[0].group, "a");
  EXPECT_EQ(sweep.runs[1].group, "b");
  EXPECT_EQ(sweep.runs[1].varied.at("training.seed"), "5");
  EXPECT_EQ(sweep.runs[2].group, "a");
  EXPECT_EQ(sweep.runs[0].steps, 9);
}

TEST_F(SweepSpecTest, NamesARunByItsSettingsAlone) {
  const std::string text = "recipe = 'recipe.toml'\n[grid]\n'training.seed' = [0, 1]\n";
  const Sweep first = read(text), again = read("keep = true\n" + text);
  EXPECT_EQ(first.runs[0].key, again.runs[0].key);
  EXPECT_NE(first.runs[0].key, first.runs[1].key);
  // The same settings, whether the recipe or the sweep names them.
  const Sweep moved =
      read("recipe = 'recipe.toml'\n[set]\n'optimizer.lr' = 0.1\n[grid]\n'training.seed' = [0, 1]\n");
  EXPECT_EQ(moved.runs[0].key, first.runs[0].key);
  write_file(folder_ / "recipe.toml", "[optimizer]\nlr = 0.2\n");
  EXPECT_NE(read(text).runs[0].key, first.runs[0].key);
}

TEST_F(SweepSpecTest, RefusesGridsThatAreTooLargeBeforeTheyAreMade) {
  const std::string recipe = "recipe = 'recipe.toml'\n";
  EXPECT_NE(refusal(recipe + "[grid]\n'optimizer.lr' = { log10 = [-1, 1], count = 1000000000 }\n")
                .find("a count of at most 100000, got 1000000000"),
            std::string::npos);
  std::string grid = "[grid]\n";
  for (const char* key : {"optimizer.lr", "optimizer.beta1", "optimizer.beta2"})
    grid += fmt::format("'{}' = {{ linear = [0.1, 0.9], count = 100 }}\n", key);
  EXPECT_NE(refusal(recipe + grid).find("has 1e+06 runs up to group"), std::string::npos)
      << refusal(recipe + grid);
  EXPECT_EQ(read(recipe + "take = 5\n" + grid).runs.size(), 5U);
  EXPECT_NE(refusal(recipe + "[[group]]\nname = 'a'\ntake = 100001\n" + grid.replace(0, 6, "[group.grid]"))
                .find("has 1e+05 runs"),
            std::string::npos);
  // Counted before the first is made: 40 groups would be four million runs.
  std::string groups = recipe + "[grid]\n'optimizer.lr' = { log10 = [-1, 1], count = 100000 }\n";
  for (int i = 0; i < 40; ++i)
    groups += fmt::format("[[group]]\nname = 'g{}'\n[group.set]\n'training.seed' = {}\n", i, i);
  EXPECT_NE(refusal(groups).find("at most 100000 are made"), std::string::npos);
  std::string wide = recipe + "take = 5\n[grid]\n";
  for (const char* key : {"optimizer.lr", "optimizer.beta1", "optimizer.beta2"})
    wide += fmt::format("'{}' = {{ linear = [0.1, 0.9], count = 100000 }}\n", key);
  EXPECT_NE(refusal(wide).find("a grid of 1e+15 points"), std::string::npos);
}

TEST_F(SweepSpecTest, RefusesWhatIsWrongBeforeTheFirstRun) {
  EXPECT_NE(refusal("recipe = 'recipe.toml'\n[gird]\n").find("did you mean 'grid'"), std::string::npos);
  EXPECT_NE(refusal("recipe = 'recipe.toml'\n[grid]\n'optimizer.ls' = [1]\n").find("optimizer.lr"),
            std::string::npos);
  EXPECT_NE(refusal("recipe = 'recipe.toml'\n[grid]\n'optimizer.lr' = 1\n").find("must be a list of values"),
            std::string::npos);
  EXPECT_NE(refusal("recipe = 'recipe.toml'\n[grid]\n'optimizer.lr' = [1, 1]\n").find("twice"),
            std::string::npos);
  EXPECT_NE(refusal("recipe = 'recipe.toml'\n[grid]\n'optimizer.lr' = { log10 = [1], count = 2 }\n")
                .find("log10 or linear"),
            std::string::npos);
  EXPECT_NE(refusal("[grid]\n'optimizer.lr' = [1]\n").find("no recipe"), std::string::npos);
  EXPECT_NE(refusal("recipe = 'other.toml'\n").find("other.toml"), std::string::npos);
  EXPECT_NE(refusal("recipe = 'recipe.toml'\n[[group]]\nname = 'a b'\n").find("without spaces"),
            std::string::npos);
  EXPECT_NE(refusal("recipe = 'recipe.toml\n").find("line 1"), std::string::npos);
  EXPECT_NE(refusal("recipe = 'recipe.toml'\ngroup = [1]\n").find("[[group]]"), std::string::npos);
  EXPECT_NE(refusal("recipe = 'recipe.toml'\n[group]\nname = 'a'\n").find("[[group]]"), std::string::npos);
  EXPECT_NE(refusal("recipe = 'recipe.toml'\nset = 3\n").find("[set]"), std::string::npos);
  EXPECT_NE(
      refusal("recipe = 'recipe.toml'\ntake = -1\n").find("take must be 0, for all runs, or more, got -1"),
      std::string::npos);
  EXPECT_THROW(read_sweep(folder_ / "none.toml"), InputError);
}

}  // namespace
}  // namespace bridle
