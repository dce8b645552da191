// Small archives for tests: tar.gz, Debian packages, gzip.
#pragma once

#include <archive.h>
#include <archive_entry.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/files.h"

namespace bridle::test {

struct Member {
  std::string path;
  std::string contents;  // or what a link points to
  unsigned int type = AE_IFREG;
  bool hard_link = false;
};

inline void write_members(struct archive* writer, const std::vector<Member>& members) {
  for (const Member& member : members) {
    archive_entry* entry = archive_entry_new();
    archive_entry_set_pathname(entry, member.path.c_str());
    archive_entry_set_filetype(entry, member.type);
    archive_entry_set_perm(entry, 0644);
    const bool data = member.type == AE_IFREG && !member.hard_link;
    archive_entry_set_size(entry, data ? static_cast<la_int64_t>(member.contents.size()) : 0);
    if (member.hard_link) archive_entry_set_hardlink(entry, member.contents.c_str());
    if (member.type == AE_IFLNK) archive_entry_set_symlink(entry, member.contents.c_str());
    archive_write_header(writer, entry);
    if (data) archive_write_data(writer, member.contents.data(), member.contents.size());
    archive_entry_free(entry);
  }
  archive_write_free(writer);
}

inline void pack(const std::filesystem::path& path, const std::vector<Member>& members) {
  struct archive* writer = archive_write_new();
  archive_write_add_filter_gzip(writer);
  archive_write_set_format_pax_restricted(writer);
  archive_write_open_filename(writer, path.c_str());
  write_members(writer, members);
}

// debian-binary, control.tar.gz and data.tar.gz in an ar archive.
inline void pack_debian(const std::filesystem::path& path, const std::vector<Member>& members) {
  const std::filesystem::path data = path.string() + ".data";
  pack(data, members);
  const std::string files = read_file(data);
  pack(data, {{"./control", "Package: x\n"}});
  const std::string control = read_file(data);
  std::filesystem::remove(data);
  struct archive* writer = archive_write_new();
  archive_write_set_format_ar_svr4(writer);
  archive_write_open_filename(writer, path.c_str());
  write_members(writer, {{"debian-binary", "2.0\n"}, {"control.tar.gz", control}, {"data.tar.gz", files}});
}

inline std::string gzipped(const std::string& text) {
  std::string packed(text.size() + 10000, '\0');
  size_t used = 0;
  struct archive* writer = archive_write_new();
  archive_write_add_filter_gzip(writer);
  archive_write_set_format_raw(writer);
  archive_write_open_memory(writer, packed.data(), packed.size(), &used);
  write_members(writer, {{"x", text}});
  packed.resize(used);
  return packed;
}

}  // namespace bridle::test
