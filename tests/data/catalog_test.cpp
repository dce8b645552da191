#include "data/catalog.h"

#include <cstdlib>

#include "bridle/error.h"
#include "data_support.h"

namespace bridle {
namespace {

using test::TemporaryData;

TEST(Catalog, NamesAreUniqueAndCanBeImportedByHand) {
  for (const Known& known : catalog()) {
    EXPECT_TRUE(is_known(known.name));
    EXPECT_FALSE(known.import_hint.empty()) << known.name;
    EXPECT_TRUE(known.take && known.convert) << known.name;
    EXPECT_EQ(std::count_if(catalog().begin(), catalog().end(),
                            [&](const Known& k) { return k.name == known.name; }),
              1);
  }
  EXPECT_FALSE(is_known("mine"));
}

// The text is no part of the project: BRIDLE_SHAKESPEARE says where it is.
TEST(Catalog, ShakespeareHasThePapersCounts) {
  const char* path = std::getenv("BRIDLE_SHAKESPEARE");
  if (path == nullptr)
    GTEST_SKIP() << "SKIPPED: set BRIDLE_SHAKESPEARE to tiny Shakespeare's input.txt to run this";
  const TemporaryData data;
  const DataSet text = import_known("shakespeare", path);
  EXPECT_EQ(text.outputs, 65);
  EXPECT_EQ(text.train.at(0).count, 1003854);
  EXPECT_EQ(text.validation.at(0).count, 111540);
}

}  // namespace
}  // namespace bridle
