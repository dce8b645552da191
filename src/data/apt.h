// Debian packages, fetched by apt's own client as this machine has it set up. Nothing is installed, and no root is needed.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>

#include "bridle/progress.h"

namespace bridle {

// The package, or one that it depends on: "linux-doc" depends on the release's own "linux-doc-6.1".
struct DebianPackage {
  std::string name;
  std::string dependency =
      {};  // a shell pattern ("linux-doc-*"): the first dependency that matches; empty: the package
};

struct DebianFile {
  std::filesystem::path path;
  std::string package;  // what was fetched
  std::string version;
  std::string sha256;
};

struct AptLimits {
  std::chrono::milliseconds pause{60000};  // in which nothing more comes
};

// Puts the package's file into the folder, which exists; a whole one that is there already is not fetched again. apt's index
// says which version, and its checksum, which is compared. Throws InputError if there is no apt-get, or with its own reason.
DebianFile fetch_debian_package(const DebianPackage& package, const std::filesystem::path& folder,
                                const OnProgress& on_progress = {}, const AptLimits& limits = {});

}  // namespace bridle
