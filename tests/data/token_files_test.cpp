#include "data/token_files.h"

#include <unistd.h>

#include <array>

#include "bridle/error.h"
#include "data_support.h"

namespace bridle {
namespace {

using test::counting;
using test::TemporaryFolder;
using test::write_shards;

std::string raw_bytes(const std::vector<Token>& tokens) {
  return {reinterpret_cast<const char*>(tokens.data()), tokens.size() * sizeof(Token)};
}

std::string shard_bytes(std::array<int32_t, 3> start, const std::vector<Token>& tokens) {
  std::string header(kShardHeader, '\0');
  std::memcpy(header.data(), start.data(), sizeof(start));
  return header + raw_bytes(tokens);
}

TEST(TokenFiles, AreOneStreamAcrossShards) {
  const TemporaryFolder folder;
  const auto files = write_shards(folder, counting(1000), 300);
  ASSERT_EQ(files.size(), 4U);
  EXPECT_EQ(files[3].count, 100);
  const TokenFiles stream(files, TokenFormat::shard, 1000);
  ASSERT_EQ(stream.size(), 1000);
  std::vector<int64_t> out(700);
  stream.read(250, out);
  for (size_t i = 0; i < out.size(); ++i) ASSERT_EQ(out[i], static_cast<int64_t>(250 + i));
}

TEST(TokenFiles, ReadBothFormats) {
  const TemporaryFolder folder;
  write_file(folder / "raw.bin", raw_bytes({5, 6, 7}));
  write_file(folder / "shard.bin", shard_bytes({20240520, 1, 2}, {8, 9}));
  EXPECT_EQ(count_tokens(folder / "raw.bin", TokenFormat::raw), 3);
  EXPECT_EQ(count_tokens(folder / "shard.bin", TokenFormat::shard), 2);
}

TEST(TokenFiles, RefuseDamage) {
  const TemporaryFolder folder;
  const auto refused = [&](const std::string& bytes, TokenFormat format, const char* part) {
    write_file(folder / "file.bin", bytes);
    EXPECT_ERROR(count_tokens(folder / "file.bin", format), InputError, part);
  };
  const std::string good = shard_bytes({20240520, 1, 3}, {1, 2, 3});
  refused("", TokenFormat::shard, "less than a shard's header");
  refused("", TokenFormat::raw, "empty");
  refused(good.substr(0, 1000), TokenFormat::shard, "less than a shard's header");
  refused(good.substr(0, good.size() - 2), TokenFormat::shard, "truncated");
  refused(good.substr(0, good.size() - 1), TokenFormat::shard, "truncated");
  refused(good + "xx", TokenFormat::shard, "promises 3 tokens");
  refused(shard_bytes({20240521, 1, 3}, {1, 2, 3}), TokenFormat::shard, "20240521 and not 20240520");
  refused(shard_bytes({20240520, 7, 3}, {1, 2, 3}), TokenFormat::shard, "version 7");
  refused(shard_bytes({20240520, 1, -3}, {1, 2, 3}), TokenFormat::shard, "promises -3");
  refused(shard_bytes({20240520, 1, 0}, {}), TokenFormat::shard, "promises 0");
  refused("abc", TokenFormat::raw, "not a whole number");
  refused(good, TokenFormat::raw, "import it without --raw");
}

TEST(TokenFiles, RefuseIdsBeyondTheVocabulary) {
  const TemporaryFolder folder;
  const TokenFiles stream(write_shards(folder, counting(50)), TokenFormat::shard, 40);
  std::vector<int64_t> out(40);
  stream.read(0, out);
  EXPECT_ERROR(stream.read(5, out), InputError, "token 40 is 40, beyond the vocabulary of 40");
}

TEST(TokenFiles, NoticeThatAFileHasChanged) {
  const TemporaryFolder folder;
  auto files = write_shards(folder, counting(50));
  files[0].count = 60;
  EXPECT_ERROR(TokenFiles(files, TokenFormat::shard, 50), InputError, "holds 50 tokens and held 60");
}

TEST(TokenFiles, MayBeLargerThanMemory) {
  const TemporaryFolder folder;
  constexpr int64_t kTokens = 2'000'000'000;  // 4 GB a file, all of it a hole; 32 of them are 128 GB
  const std::string header = shard_bytes({20240520, 1, static_cast<int32_t>(kTokens)}, {});
  std::vector<DataFile> files;
  for (int i = 0; i < 32; ++i) {
    const auto path = folder / std::to_string(i);
    write_file(path, header);
    ASSERT_EQ(::truncate(path.c_str(), static_cast<off_t>(kShardHeader) + kTokens * 2), 0)
        << "no room for holes here";
    files.push_back({path, kTokens});
  }
  const TokenFiles stream(files, TokenFormat::shard, 10);
  std::vector<int64_t> out(1000, 7);
  stream.read(31 * kTokens - 500, out);
  EXPECT_EQ(out, std::vector<int64_t>(1000, 0));
}

TEST(MatchingFiles, AreSortedAndAtLeastOne) {
  const TemporaryFolder folder;
  for (const char* name : {"b.bin", "a.bin", "c.txt"}) write_file(folder / name, "x");
  const auto found = matching_files((folder / "*.bin").string());
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].filename(), "a.bin");
  EXPECT_EQ(matching_files((folder / "c.txt").string()).size(), 1U);
  EXPECT_ERROR(matching_files((folder / "*.dat").string()), InputError, "no file matches");
}

}  // namespace
}  // namespace bridle
