#include "data/token_writer.h"

#include "bridle/error.h"
#include "data_support.h"

namespace bridle {
namespace {

using test::counting;
using test::FileSizeLimit;
using test::TemporaryFolder;

TEST(TokenWriter, FillsShardsWhateverTheSizeOfTheWrites) {
  const TemporaryFolder folder;
  TokenWriter writer(folder, "train", 100);
  const std::vector<Token> tokens = counting(250);
  for (size_t i = 0; i < tokens.size(); i += 7)
    writer.write(std::span(tokens).subspan(i, std::min<size_t>(7, tokens.size() - i)));
  const auto files = writer.close();
  ASSERT_EQ(files.size(), 3U);
  EXPECT_EQ(files[0].path.filename(), "train_000000.bin");
  for (const DataFile& file : files) EXPECT_EQ(count_tokens(file.path, TokenFormat::shard), file.count);
  EXPECT_EQ(files[2].count, 50);
}

TEST(TokenWriter, SaysThatTheDiskIsFull) {
  const TemporaryFolder folder;
  const FileSizeLimit limit(4096);
  TokenWriter writer(folder, "train", 1000000);
  writer.write(counting(10000));
  EXPECT_ERROR(writer.close(), InputError, "train_000000.bin: File too large");
}

}  // namespace
}  // namespace bridle
