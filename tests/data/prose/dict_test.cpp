#include "data/prose/dict.h"

#include "bridle/error.h"
#include "file_support.h"

namespace bridle {
namespace {

const std::string kInfo = "about it\n";
const std::string kFirst =
    "Abbot \\Ab\"bot\\, n. [OE. abbod.]\n   1. The superior of an {abbey}.\n      [1913 Webster]\n\n   2. A "
    "title.\n";
const std::string kSecond = "Abbey\n   A house of {monks}.\n   [PJC]\n";

// 103 = Bn, 9 + 103 = Bw, 38 = m.
std::string index() { return "00-database-info\tA\tJ\nabbot\tJ\tBn\nabbots\tJ\tBn\nabbey\tBw\tm\n"; }

TEST(Dict, GivesEntriesWithoutMarkup) {
  ASSERT_EQ(kFirst.size(), 103U);
  ASSERT_EQ(kSecond.size(), 38U);
  const auto documents = documents_of_dict("x", index(), kInfo + kFirst + kSecond);
  ASSERT_EQ(documents.size(), 1U);
  EXPECT_EQ(
      documents[0],
      "Abbot, n. [OE. abbod.] 1. The superior of an abbey.\n2. A title.\n\nAbbey A house of monks.\n\n");
}

TEST(Dict, BeginsADocumentWhereOneIsLongEnough) {
  const auto documents = documents_of_dict("x", index(), kInfo + kFirst + kSecond, 10);
  ASSERT_EQ(documents.size(), 2U);
  EXPECT_EQ(documents[1], "Abbey A house of monks.\n\n");
}

TEST(Dict, RefusesAnIndexThatDoesNotFit) {
  EXPECT_ERROR(documents_of_dict("x.dict", "abbot\tJ\tBf\n", "short"), InputError,
               "[data] x.dict: the index's line \"abbot\tJ\tBf\" names no place in a text of 5 bytes");
  EXPECT_ERROR(documents_of_dict("x", "abbot\n", "text"), InputError, "names no place");
  EXPECT_ERROR(documents_of_dict("x", "abbot\t?\tB\n", "text"), InputError, "names no place");
  EXPECT_ERROR(documents_of_dict("x", "abbot\tA\t\n", "text"), InputError, "names no place");
  EXPECT_ERROR(documents_of_dict("x", "abbot\tA\t////////////////////\n", "text"), InputError,
               "names no place");
}

}  // namespace
}  // namespace bridle
