// See byte_pair_files.h.
#include "data/byte_pair_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "base/files.h"
#include "bridle/error.h"
#include "data/utf8.h"

namespace bridle {
namespace {

using nlohmann::json;
using Path = std::filesystem::path;
using Ids = std::unordered_map<std::string, Token>;  // of tokens as the files write them

constexpr std::string_view kEndOfText = "<|endoftext|>";  // the one token that no merge makes
constexpr size_t kMostTokens = 65536;

[[noreturn]] void fail(const Path& path, const std::string& what) {
  throw InputError("tokenizer", fmt::format("{}: {}; fetch GPT-2's files again", path.string(), what));
}

std::string shown(std::string_view text) {
  const bool long_text = text.size() > 40;
  const json start = std::string(text.substr(0, 40));
  return start.dump(-1, ' ', false, json::error_handler_t::replace) + (long_text ? "…" : "");
}

// ---- the alphabet

std::array<char32_t, 256> make_alphabet() {
  std::array<char32_t, 256> letters{};
  char32_t next = 256;
  for (char32_t byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xFF && byte != 0xAD);
    letters[byte] = printable ? byte : next++;
  }
  return letters;
}

const std::array<char32_t, 256>& alphabet() {
  static const auto letters = make_alphabet();
  return letters;
}

std::string to_letters(std::string_view bytes) {
  std::string written;
  for (const char byte : bytes) append_utf8(alphabet()[static_cast<unsigned char>(byte)], written);
  return written;
}

std::string to_bytes(const Path& path, const std::string& written) {
  std::string bytes;
  for (size_t at = 0; at < written.size();) {
    const CodePoint point = decode_utf8(written, at);
    const auto letter = std::find(alphabet().begin(), alphabet().end(), point.value);
    if (letter == alphabet().end()) {
      fail(path, fmt::format("token {} has U+{:04X}, which stands for no byte", shown(written),
                             static_cast<uint32_t>(point.value)));
    }
    bytes.push_back(static_cast<char>(letter - alphabet().begin()));
    at += point.length;
  }
  return bytes;
}

// ---- vocab.json

json parse_object(const Path& path) {
  json object;
  try {
    object = json::parse(read_file(path));
  } catch (const json::parse_error& error) {
    fail(path, fmt::format("byte {} is not JSON", error.byte));
  }
  if (!object.is_object())
    fail(path, fmt::format("holds {}, not an object of ids by token", object.type_name()));
  if (object.size() > kMostTokens)
    fail(path, fmt::format("has {} tokens, of {} at most", object.size(), kMostTokens));
  return object;
}

Ids read_vocabulary(const Path& path, BytePairs& pairs) {
  const json object = parse_object(path);
  pairs.tokens.resize(object.size());
  Ids ids;
  for (const auto& [written, id] : object.items()) {
    if (written.empty()) fail(path, "has an empty token");
    if (!id.is_number_unsigned() || id.get<uint64_t>() >= object.size()) {
      fail(path, fmt::format("token {} has id {}; {} tokens need the ids 0 to {}", shown(written),
                             shown(id.dump()), object.size(), object.size() - 1));
    }
    std::string& bytes = pairs.tokens[id.get<size_t>()];
    if (!bytes.empty())
      fail(path, fmt::format("id {} belongs to {} and another token", id.dump(), shown(written)));
    bytes = to_bytes(path, written);
    ids.emplace(written, id.get<Token>());
  }
  for (size_t byte = 0; byte < 256; ++byte) {
    const auto id = ids.find(to_letters(std::string(1, static_cast<char>(byte))));
    if (id == ids.end()) fail(path, fmt::format("has no token for the byte 0x{:02x}", byte));
    pairs.bytes[byte] = id->second;
  }
  return ids;
}

// ---- merges.txt

// Reads lines, and keeps which tokens can be made by the lines so far.
class MergeReader {
 public:
  MergeReader(const Path& path, const Ids& ids, const BytePairs& pairs)
      : path_(path), ids_(ids), made_(ids.size()) {
    for (const Token byte : pairs.bytes) made_[byte] = true;
  }

  Merge read(size_t number, std::string_view line) {
    number_ = number;
    const size_t space = line.find(' ');
    const bool two = space != std::string_view::npos && space > 0 && space + 1 < line.size() &&
                     line.find(' ', space + 1) == std::string_view::npos;
    if (!two) refuse("is " + shown(line) + ", not two tokens with a space between");
    const std::string left(line.substr(0, space)), right(line.substr(space + 1));
    const Merge merge{id_of(left), id_of(right), id_of(left + right)};
    for (const auto& [part, id] : {std::pair(left, merge.left), std::pair(right, merge.right)}) {
      if (!made_[id]) refuse("merges " + shown(part) + " before a line makes it");
    }
    if (made_[merge.result]) refuse("makes " + shown(left + right) + " a second time");
    made_[merge.result] = true;
    return merge;
  }

  // Tokens that neither are bytes nor come from a merge show that lines are missing.
  void check_all_made(const BytePairs& pairs) const {
    for (size_t id = 0; id < made_.size(); ++id) {
      if (made_[id] || pairs.tokens[id] == kEndOfText) continue;
      fail(path_, fmt::format("no line makes token {}, {}", id, shown(to_letters(pairs.tokens[id]))));
    }
  }

 private:
  Token id_of(const std::string& written) const {
    const auto id = ids_.find(written);
    if (id == ids_.end()) refuse("has " + shown(written) + ", which is not in the vocabulary");
    return id->second;
  }
  [[noreturn]] void refuse(const std::string& what) const {
    fail(path_, fmt::format("line {} {}", number_, what));
  }

  const Path& path_;
  const Ids& ids_;
  std::vector<bool> made_;
  size_t number_ = 0;
};

void read_merges(const Path& path, const Ids& ids, BytePairs& pairs) {
  const std::string text = read_file(path);
  if (!text.starts_with("#version")) fail(path, fmt::format("starts with {}, not #version", shown(text)));
  MergeReader reader(path, ids, pairs);
  size_t number = 1, at = text.find('\n');
  while (at != std::string::npos && at + 1 < text.size()) {
    const size_t end = text.find('\n', at + 1);
    pairs.merges.push_back(reader.read(++number, std::string_view(text).substr(at + 1, end - at - 1)));
    at = end;
  }
  reader.check_all_made(pairs);
}

}  // namespace

BytePairs read_byte_pairs(const Path& folder) {
  constexpr std::pair<const char*, const char*> names[] = {{"vocab.json", "merges.txt"},
                                                           {"encoder.json", "vocab.bpe"}};
  for (const auto& [vocabulary, merges] : names) {
    if (!std::filesystem::exists(folder / vocabulary)) continue;
    BytePairs pairs;
    const Ids ids = read_vocabulary(folder / vocabulary, pairs);
    read_merges(folder / merges, ids, pairs);
    return pairs;
  }
  throw InputError(
      "tokenizer",
      fmt::format("{}: has neither vocab.json nor encoder.json; name a folder with vocab.json and "
                  "merges.txt, or with encoder.json and vocab.bpe",
                  folder.string()));
}

BytePairs first_merges(const BytePairs& pairs, int64_t count) {
  if (count < 0 || count > std::ssize(pairs.merges))
    throw InputError("tokenizer",
                     fmt::format("merges must be from 0 to {}, got {}", pairs.merges.size(), count));
  std::vector<bool> kept(pairs.tokens.size());
  for (const Token id : pairs.bytes) kept[id] = true;
  for (int64_t rank = 0; rank < count; ++rank) kept[pairs.merges[static_cast<size_t>(rank)].result] = true;
  if (const auto id = end_of_text(pairs)) kept[*id] = true;
  BytePairs rest;
  std::vector<Token> new_ids(pairs.tokens.size());
  for (size_t id = 0; id < kept.size(); ++id) {
    if (!kept[id]) continue;
    new_ids[id] = static_cast<Token>(rest.tokens.size());
    rest.tokens.push_back(pairs.tokens[id]);
  }
  for (size_t byte = 0; byte < pairs.bytes.size(); ++byte) rest.bytes[byte] = new_ids[pairs.bytes[byte]];
  for (int64_t rank = 0; rank < count; ++rank) {
    const Merge& merge = pairs.merges[static_cast<size_t>(rank)];
    rest.merges.push_back({new_ids[merge.left], new_ids[merge.right], new_ids[merge.result]});
  }
  return rest;
}

std::optional<Token> end_of_text(const BytePairs& pairs) {
  const auto found = std::find(pairs.tokens.begin(), pairs.tokens.end(), kEndOfText);
  if (found == pairs.tokens.end()) return std::nullopt;
  return static_cast<Token>(found - pairs.tokens.begin());
}

void write_byte_pairs(const BytePairs& pairs, const Path& folder) {
  std::string vocabulary, merges = "#version: 0.2\n";
  for (size_t id = 0; id < pairs.tokens.size(); ++id) {
    const json written = to_letters(pairs.tokens[id]);
    vocabulary += fmt::format("{}{}: {}", id == 0 ? "{" : ", ", written.dump(), id);
  }
  vocabulary += "}\n";
  for (const Merge& merge : pairs.merges) {
    merges +=
        fmt::format("{} {}\n", to_letters(pairs.tokens[merge.left]), to_letters(pairs.tokens[merge.right]));
  }
  write_file(folder / "vocab.json", vocabulary);
  write_file(folder / "merges.txt", merges);
}

}  // namespace bridle
