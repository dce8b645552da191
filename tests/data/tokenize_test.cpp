#include "data/tokenize.h"

#include "bridle/error.h"
#include "data_support.h"

namespace bridle {
namespace {

using test::TemporaryFolder;

// Splits at spaces only: "ab ab" is ab, space, ab. Cutting inside a word would change the ids.
class Words : public Tokenizer {
 public:
  const char* name() const override { return "words"; }
  int64_t size() const override { return 65536; }
  void encode(std::string_view text, std::vector<Token>& out) const override {
    size_t length = 0;
    for (const char c : text) {
      if (c == ' ' && length > 0) out.push_back(static_cast<Token>(std::exchange(length, 0)));
      if (c == ' ')
        out.push_back(0);
      else
        ++length;
    }
    if (length > 0) out.push_back(static_cast<Token>(length));
  }
  std::string decode(std::span<const Token>) const override { return ""; }
  size_t cut(std::string_view text) const override {
    const size_t space = text.rfind(' ');
    return space == std::string_view::npos ? 0 : space;
  }
  void save(const std::filesystem::path&) const override {}
};

std::vector<int64_t> all_tokens(const std::vector<DataFile>& files) {
  const TokenFiles stream(files, TokenFormat::shard, 65536);
  std::vector<int64_t> tokens(static_cast<size_t>(stream.size()));
  stream.read(0, tokens);
  return tokens;
}

TEST(TokenizeText, SplitsNineToOneByCharacters) {
  const TemporaryFolder folder;
  write_file(folder / "text", "öäü€🙂öäü€🙂abc");  // 13 characters, of 1 to 4 bytes
  const DataSet data = tokenize_text({.text = folder / "text"}, folder, {});
  EXPECT_EQ(data.outputs, 8);
  EXPECT_EQ(data.train[0].count, 11);
  EXPECT_EQ(data.validation[0].count, 2);
  const auto tokenizer = load_tokenizer(folder);
  const auto decoded = [&](const std::vector<DataFile>& files) {
    std::vector<Token> tokens;
    for (const int64_t token : all_tokens(files)) tokens.push_back(static_cast<Token>(token));
    return tokenizer->decode(tokens);
  };
  EXPECT_EQ(decoded(data.train), "öäü€🙂öäü€🙂a");
  EXPECT_EQ(decoded(data.validation), "bc");
}

TEST(TokenizeText, EncodesALongTextInPiecesAsIfAtOnce) {
  const TemporaryFolder folder;
  std::string text;
  for (size_t i = 0; text.size() < 12'000'000; ++i) text += std::string(1 + i * i % 97, 'x') + ' ';
  text += std::string(9'000'000, 'y') + " the end";  // longer than a piece
  write_file(folder / "text", text);
  const Words words;
  int64_t last = 0;
  const DataSet data = tokenize_text({.text = folder / "text", .tokenizer = &words, .shard_tokens = 100000},
                                     folder, [&](const Progress& progress) { last = progress.done; });
  EXPECT_GT(data.train.size(), 2U);
  std::vector<Token> expected;
  words.encode(std::string_view(text).substr(0, text.size() * 9 / 10), expected);
  EXPECT_EQ(all_tokens(data.train), std::vector<int64_t>(expected.begin(), expected.end()));
  EXPECT_EQ(last, static_cast<int64_t>(text.size() - text.size() * 9 / 10));
}

TEST(TokenizeText, NamesTheFileAndTheByte) {
  const TemporaryFolder folder;
  write_file(folder / "text", "abcdefghijk\xfe");
  EXPECT_ERROR(tokenize_text({.text = folder / "text"}, folder, {}), InputError, "byte 11 (0xfe)");
  std::string late(9'000'000, 'a');
  late[8'999'990] = '\xff';  // far into the validation part
  write_file(folder / "text", late);
  const Words words;
  EXPECT_ERROR(tokenize_text({.text = folder / "text", .tokenizer = &words}, folder, {}), InputError,
               "byte 8999990 (0xff)");
  write_file(folder / "text", "");
  EXPECT_ERROR(tokenize_text({.text = folder / "text"}, folder, {}), InputError, "0 bytes are too few");
  write_file(folder / "text", "a");
  EXPECT_ERROR(tokenize_text({.text = folder / "text"}, folder, {}), InputError, "1 bytes are too few");
}

}  // namespace
}  // namespace bridle
