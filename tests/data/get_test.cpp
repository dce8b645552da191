#include "bridle/data.h"
#include "bridle/error.h"
#include "data_support.h"

namespace bridle {
namespace {

using test::TemporaryData;

TEST(KnownData, IsListedWithItsSources) {
  const TemporaryData data;
  const auto list = list_data();
  ASSERT_EQ(list.size(), 4U);
  for (const KnownData& row : list) {
    EXPECT_FALSE(row.present);
    EXPECT_FALSE(row.sources.empty() || row.licence.empty() || row.about.empty()) << row.name;
  }
  write_file(data / "a.txt", "to be or not to be");
  import_text("mine", {.text = data / "a.txt"});
  ASSERT_EQ(list_data().size(), 5U);
  EXPECT_EQ(list_data()[4].name, "mine");
  EXPECT_TRUE(list_data()[4].present);
  EXPECT_GT(list_data()[4].bytes, 2000);
}

TEST(KnownData, IsImportedOnlyIfItIsTheRightData) {
  const TemporaryData data;
  write_file(data / "input.txt", "not Shakespeare");
  EXPECT_ERROR(import_known("shakespeare", data / "input.txt"), InputError, "instead of 86c4e6aa");
  EXPECT_ERROR(import_known("shakespeare", data / "missing"), InputError, "missing: No such file");
  EXPECT_ERROR(import_known("cifar10", data / "input.txt"), InputError, "input.txt");
  EXPECT_ERROR(import_known("gpt2", data / "input.txt"), InputError, "encoder.json");
  EXPECT_ERROR(open_data_set("shakespeare"), InputError, "run bridle data get shakespeare");
}

TEST(KnownData, SuggestsWhatWasMeant) {
  EXPECT_ERROR(get_data("shakespear"), InputError, "did you mean 'shakespeare'?");
  EXPECT_ERROR(get_data("nothing-like-it"), InputError, "bridle data list shows them");
}

}  // namespace
}  // namespace bridle
