// Small packages of text for tests, and a byte-pair tokenizer for them.
#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

#include "archive_support.h"
#include "base/checksum.h"
#include "data/byte_pair_files.h"
#include "data/byte_pair_support.h"
#include "data/prose/packages.h"
#include "file_support.h"

namespace bridle::test {

// A paragraph of more than 200 letters that no other number gives.
inline std::string paragraph(int number) {
  std::string text = fmt::format("Document number {} begins here.", number);
  for (int i = 0; i < 8; ++i) text += fmt::format(" It says that word{} follows word{}.", number * 7 + i, i);
  return text;
}

inline std::vector<Member> pages(int count, int first = 0) {
  std::vector<Member> members;
  for (int i = 0; i < count; ++i)
    members.push_back({fmt::format("./usr/share/doc/x/{}.html", i), "<p>" + paragraph(first + i) + "</p>"});
  return members;
}

inline FetchedPackage package_of(const std::filesystem::path& file, const std::string& name,
                                 TextFormat format, const std::string& members = "*") {
  return {.source = {.name = name, .licence = "free", .package = name, .format = format, .members = members},
          .name = name,
          .version = "1.0",
          .sha256 = sha256_of_file(file),
          .file = file};
}

inline std::unique_ptr<Tokenizer> small_byte_pairs() {
  const TemporaryFolder folder;
  write_byte_pairs(make_byte_pairs({{" ", "t"}, {"h", "e"}, {" t", "he"}}), folder);
  return load_byte_pair_tokenizer(folder);
}

}  // namespace bridle::test
