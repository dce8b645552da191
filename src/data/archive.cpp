#include "data/archive.h"

#include <archive.h>
#include <archive_entry.h>
#include <fmt/format.h>

#include <memory>
#include <set>

#include "base/files.h"
#include "bridle/error.h"

namespace bridle {
namespace {

namespace fs = std::filesystem;
constexpr size_t kBlock = size_t{1} << 18;

class Reader {
 public:
  Reader(const fs::path& path, const OnProgress& on_progress);

  std::string next();  // the next member's path; empty at the end
  void expect_regular_file() const;
  void extract(const fs::path& to);
  [[noreturn]] void fail(const std::string& member, const std::string& reason) const;

 private:
  [[noreturn]] void fail_with_cause() const;
  void tell();

  MappedFile file_;
  const OnProgress& on_progress_;
  std::unique_ptr<struct archive, decltype(&archive_read_free)> archive_{archive_read_new(),
                                                                         archive_read_free};
  archive_entry* entry_ = nullptr;
  std::string member_;
};

Reader::Reader(const fs::path& path, const OnProgress& on_progress) : file_(path), on_progress_(on_progress) {
  archive_read_support_filter_gzip(archive_.get());
  archive_read_support_format_tar(archive_.get());
  const auto bytes = file_.bytes();
  if (archive_read_open_memory2(archive_.get(), bytes.data(), bytes.size(), kBlock) != ARCHIVE_OK)
    fail_with_cause();
}

void Reader::fail(const std::string& member, const std::string& reason) const {
  throw InputError("unpack", fmt::format("{}: {}{}{}; fetch the archive again", file_.path().string(), member,
                                         member.empty() ? "" : " ", reason));
}

void Reader::fail_with_cause() const {
  const char* cause = archive_error_string(archive_.get());
  fail(member_, fmt::format("cannot be read ({})", cause != nullptr ? cause : "no reason given"));
}

void Reader::tell() {
  report(on_progress_, {.what = "unpack " + file_.path().filename().string(),
                        .done = archive_filter_bytes(archive_.get(), -1),
                        .total = static_cast<int64_t>(file_.bytes().size()),
                        .unit = "bytes"});
}

std::string Reader::next() {
  member_.clear();
  const int code = archive_read_next_header(archive_.get(), &entry_);
  if (code == ARCHIVE_EOF) return {};
  if (code < ARCHIVE_WARN) fail_with_cause();
  const char* path = archive_entry_pathname(entry_);
  member_ = path != nullptr ? path : "?";
  tell();
  return member_;
}

void Reader::expect_regular_file() const {
  if (archive_entry_filetype(entry_) != AE_IFREG || archive_entry_hardlink(entry_) != nullptr)
    fail(member_, "is a link or a folder, not a file");
}

void Reader::extract(const fs::path& to) {
  OutputFile file(to);
  std::string block(kBlock, '\0');
  while (true) {
    const la_ssize_t count = archive_read_data(archive_.get(), block.data(), block.size());
    if (count < 0) fail_with_cause();
    if (count == 0) break;
    file.write(std::string_view(block).substr(0, static_cast<size_t>(count)));
    tell();
  }
  file.close();
}

}  // namespace

void unpack(const fs::path& archive, const fs::path& folder, const std::vector<std::string>& wanted,
            const OnProgress& on_progress) {
  Reader reader(archive, on_progress);
  std::set<std::string> missing(wanted.begin(), wanted.end());
  while (!missing.empty()) {
    const std::string member = reader.next();
    if (member.empty()) reader.fail(*missing.begin(), "is not in it");
    if (missing.erase(member) == 0) continue;
    reader.expect_regular_file();
    const fs::path to = folder / fs::path(member).filename();
    try {
      reader.extract(to);
    } catch (...) {
      std::error_code ignored;
      fs::remove(to, ignored);
      throw;
    }
  }
}

}  // namespace bridle
