#include "data/archive.h"

#include <archive.h>
#include <archive_entry.h>
#include <fmt/format.h>

#include <memory>
#include <set>
#include <span>
#include <utility>

#include "base/files.h"
#include "bridle/error.h"

namespace bridle {
namespace {

namespace fs = std::filesystem;
constexpr size_t kBlock = size_t{1} << 18;

enum class Format { tar, package, raw };  // package: Debian's, an ar archive

class Reader {
 public:
  // `bytes` must outlive the reader; `name` is what errors call them.
  Reader(std::string name, std::span<const std::byte> bytes, const OnProgress& on_progress,
         Format format = Format::tar);

  std::string next();  // the next member's path; empty at the end
  bool is_regular_file() const;
  void expect_regular_file() const;
  void extract(const fs::path& to);
  std::string contents();
  [[noreturn]] void fail(const std::string& member, const std::string& reason) const;

 private:
  [[noreturn]] void fail_with_cause() const;
  void tell();
  size_t read(std::string& block);

  std::string name_;
  std::span<const std::byte> bytes_;
  OnProgress on_progress_;
  std::unique_ptr<struct archive, decltype(&archive_read_free)> archive_{archive_read_new(),
                                                                         archive_read_free};
  archive_entry* entry_ = nullptr;
  std::string member_;
  int64_t told_ = -1;
};

Reader::Reader(std::string name, std::span<const std::byte> bytes, const OnProgress& on_progress,
               Format format)
    : name_(std::move(name)), bytes_(bytes), on_progress_(on_progress) {
  archive_read_support_filter_gzip(archive_.get());
  archive_read_support_filter_xz(archive_.get());
  archive_read_support_filter_zstd(archive_.get());
  switch (format) {
    case Format::tar:
      archive_read_support_format_tar(archive_.get());
      break;
    case Format::package:
      archive_read_support_format_ar(archive_.get());
      break;
    case Format::raw:
      archive_read_support_format_raw(archive_.get());
      break;
  }
  if (archive_read_open_memory2(archive_.get(), bytes.data(), bytes.size(), kBlock) != ARCHIVE_OK)
    fail_with_cause();
}

void Reader::fail(const std::string& member, const std::string& reason) const {
  throw InputError("unpack", fmt::format("{}: {}{}{}; fetch the archive again", name_, member,
                                         member.empty() ? "" : " ", reason));
}

void Reader::fail_with_cause() const {
  const char* cause = archive_error_string(archive_.get());
  fail(member_, fmt::format("cannot be read ({})", cause != nullptr ? cause : "no reason given"));
}

void Reader::tell() {
  const int64_t done = archive_filter_bytes(archive_.get(), -1);
  if (done == told_) return;  // of many small members that were read at once
  told_ = done;
  report(on_progress_, {.what = "unpack " + fs::path(name_).filename().string(),
                        .done = done,
                        .total = static_cast<int64_t>(bytes_.size()),
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

bool Reader::is_regular_file() const {
  return archive_entry_filetype(entry_) == AE_IFREG && archive_entry_hardlink(entry_) == nullptr;
}

void Reader::expect_regular_file() const {
  if (!is_regular_file()) fail(member_, "is a link or a folder, not a file");
}

size_t Reader::read(std::string& block) {
  const la_ssize_t count = archive_read_data(archive_.get(), block.data(), block.size());
  if (count < 0) fail_with_cause();
  tell();
  return static_cast<size_t>(count);
}

void Reader::extract(const fs::path& to) {
  OutputFile file(to);
  std::string block(kBlock, '\0');
  while (const size_t count = read(block)) file.write(std::string_view(block).substr(0, count));
  file.close();
}

std::string Reader::contents() {
  std::string all, block(kBlock, '\0');
  while (const size_t count = read(block)) all.append(block, 0, count);
  return all;
}

// A Debian package is an ar archive of debian-binary, control.tar.* and data.tar.*, which holds the files.
std::string files_of_package(const MappedFile& file, const OnProgress& on_progress) {
  Reader reader(file.path().string(), file.bytes(), on_progress, Format::package);
  while (true) {
    const std::string member = reader.next();
    if (member.empty()) reader.fail("data.tar", "is not in it");
    if (member.starts_with("data.tar")) return reader.contents();
  }
}

}  // namespace

void unpack(const fs::path& archive, const fs::path& folder, const std::vector<std::string>& wanted,
            const OnProgress& on_progress) {
  const MappedFile file(archive);
  Reader reader(archive.string(), file.bytes(), on_progress);
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

void visit_members(const fs::path& archive, const MemberVisitor& visitor, const OnProgress& on_progress) {
  const MappedFile file(archive);
  const bool package = file.text().starts_with("!<arch>\n");
  const std::string files = package ? files_of_package(file, {}) : std::string();
  Reader reader(archive.string(), package ? std::as_bytes(std::span(files)) : file.bytes(), on_progress);
  while (true) {
    std::string member = reader.next();
    if (member.empty()) return;
    if (member.starts_with("./")) member.erase(0, 2);
    if (reader.is_regular_file() && visitor.wanted(member)) visitor.take(member, reader.contents());
  }
}

std::string gunzip(const std::string& name, std::string_view bytes) {
  Reader reader(name, std::as_bytes(std::span(bytes)), {}, Format::raw);
  if (!bytes.starts_with("\x1f\x8b") || reader.next().empty()) reader.fail("", "is not gzip's");
  return reader.contents();
}

}  // namespace bridle
