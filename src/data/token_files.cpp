#include "data/token_files.h"

#include <fmt/format.h>
#include <glob.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "bridle/error.h"

namespace bridle {
namespace {

[[noreturn]] void refuse(const std::filesystem::path& path, const std::string& what) {
  throw InputError("token file", fmt::format("{}: {}", path.string(), what));
}

int64_t count_in_shard(const MappedFile& file) {
  const size_t size = file.bytes().size();
  if (size < kShardHeader)
    refuse(file.path(), fmt::format("{} bytes are less than a shard's header of {}", size, kShardHeader));
  std::array<int32_t, 3> header{};
  std::memcpy(header.data(), file.bytes().data(), sizeof(header));
  if (header[0] != kShardMagic) {
    refuse(file.path(),
           fmt::format("the first number is {} and not {}: not a shard; nanoGPT's files without a header "
                       "are imported with --raw",
                       header[0], kShardMagic));
  }
  if (header[1] != kShardVersion)
    refuse(file.path(),
           fmt::format("version {}; only version {} (uint16 tokens) is read", header[1], kShardVersion));
  const int64_t held = static_cast<int64_t>((size - kShardHeader) / sizeof(Token));
  if (header[2] <= 0 || held != header[2] || (size - kShardHeader) % sizeof(Token) != 0) {
    refuse(file.path(),
           fmt::format("the header promises {} tokens and the file holds {} bytes of them ({} tokens); it is "
                       "truncated or damaged, fetch it again",
                       header[2], size - kShardHeader, held));
  }
  return held;
}

int64_t count_in_raw(const MappedFile& file) {
  const size_t size = file.bytes().size();
  if (size == 0) refuse(file.path(), "the file is empty");
  if (size % sizeof(Token) != 0)
    refuse(file.path(),
           fmt::format("{} bytes are not a whole number of uint16 tokens; it is truncated", size));
  int32_t first = 0;
  if (size >= sizeof(first)) std::memcpy(&first, file.bytes().data(), sizeof(first));
  if (first == kShardMagic) refuse(file.path(), "it begins with a shard's header; import it without --raw");
  return static_cast<int64_t>(size / sizeof(Token));
}

}  // namespace

int64_t count_tokens(const std::filesystem::path& path, TokenFormat format) {
  const MappedFile file(path);
  return format == TokenFormat::shard ? count_in_shard(file) : count_in_raw(file);
}

std::vector<std::filesystem::path> matching_files(const std::string& pattern) {
  if (std::filesystem::exists(pattern)) return {pattern};  // a file's own name may have brackets
  glob_t found{};
  const int code = ::glob(pattern.c_str(), GLOB_NOCHECK | GLOB_TILDE, nullptr, &found);
  std::vector<std::filesystem::path> paths;
  for (size_t i = 0; code == 0 && i < found.gl_pathc; ++i) paths.emplace_back(found.gl_pathv[i]);
  ::globfree(&found);
  if (paths.empty() || !std::filesystem::exists(paths[0]))
    throw InputError("token file", fmt::format("no file matches '{}'", pattern));
  return paths;
}

TokenFiles::TokenFiles(const std::vector<DataFile>& files, TokenFormat format, int64_t vocabulary_size)
    : header_(format == TokenFormat::shard ? kShardHeader : 0), vocabulary_size_(vocabulary_size) {
  int64_t end = 0;
  for (const DataFile& file : files) {
    const int64_t count = count_tokens(file.path, format);
    if (count != file.count)
      refuse(file.path, fmt::format("it holds {} tokens and held {} when it was imported; import it again",
                                    count, file.count));
    files_.emplace_back(file.path, MappedFile::Access::random);
    ends_.push_back(end += count);
  }
}

void TokenFiles::read(int64_t position, std::span<int64_t> out) const {
  auto file = static_cast<size_t>(std::upper_bound(ends_.begin(), ends_.end(), position) - ends_.begin());
  while (!out.empty()) {
    const int64_t begin = file == 0 ? 0 : ends_[file - 1];
    const size_t here = std::min(out.size(), static_cast<size_t>(ends_.at(file) - position));
    copy(file, position - begin, out.first(here));
    out = out.subspan(here);
    position += static_cast<int64_t>(here);
    ++file;
  }
}

void TokenFiles::check_ids() const {
  constexpr int64_t chunk = 1 << 20;
  std::vector<int64_t> ids(static_cast<size_t>(std::min(chunk, size())));
  for (int64_t position = 0; position < size(); position += chunk)
    read(position, std::span(ids).first(static_cast<size_t>(std::min(chunk, size() - position))));
}

void TokenFiles::copy(size_t file, int64_t offset, std::span<int64_t> out) const {
  const std::byte* tokens =
      files_[file].bytes().data() + header_ + static_cast<size_t>(offset) * sizeof(Token);
  Token largest = 0;
  for (size_t i = 0; i < out.size(); ++i) {
    Token token = 0;
    std::memcpy(&token, tokens + i * sizeof(Token), sizeof(Token));
    largest = std::max(largest, token);
    out[i] = token;
  }
  if (largest < vocabulary_size_) return;
  const auto bad = std::find_if(out.begin(), out.end(), [&](int64_t id) { return id >= vocabulary_size_; });
  refuse(files_[file].path(),
         fmt::format("token {} is {}, beyond the vocabulary of {}; the file is damaged or belongs to "
                     "another tokenizer",
                     offset + (bad - out.begin()), *bad, vocabulary_size_));
}

}  // namespace bridle
