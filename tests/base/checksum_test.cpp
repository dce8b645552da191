#include "base/checksum.h"

#include "base/files.h"
#include "file_support.h"

namespace bridle {
namespace {

using test::TemporaryFolder;

// FIPS 180-2, appendix B.
TEST(Sha256, GivesTheStandardsExamples) {
  const TemporaryFolder folder;
  write_file(folder / "abc", "abc");
  write_file(folder / "empty", "");
  EXPECT_EQ(sha256_of_file(folder / "abc"),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_of_file(folder / "empty"),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

TEST(Sha256, DoesNotDependOnHowTheBytesAreCut) {
  const std::string text(100000, 'a');
  Sha256 pieces;
  for (size_t i = 0; i < text.size(); i += 777)
    pieces.update(std::as_bytes(std::span(text).subspan(i, std::min<size_t>(777, text.size() - i))));
  Sha256 whole;
  whole.update(std::as_bytes(std::span(text)));
  EXPECT_EQ(pieces.digest(), whole.digest());
}

}  // namespace
}  // namespace bridle
