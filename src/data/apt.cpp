// See apt.h.
#include "data/apt.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <sstream>
#include <vector>

#include "base/checksum.h"
#include "base/files.h"
#include "base/stopwatch.h"
#include "base/subprocess.h"
#include "bridle/error.h"

namespace bridle {
namespace {

namespace fs = std::filesystem;

constexpr const char* kByHand =
    "check the network and apt's settings, or fetch the package by hand and import it";

[[noreturn]] void fail(const std::string& package, const std::string& reason, const std::string& hint) {
  throw InputError("apt", fmt::format("{}: {}; {}", package, reason, hint));
}

// "E: Unable to locate package x": the first line that is an error, else the last one.
std::string reason(const ProgramResult& result) {
  std::string last;
  std::istringstream lines(result.errors);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("E: ")) return line.substr(3);
    if (!line.empty()) last = line;
  }
  return last.empty() ? fmt::format("apt ended with exit code {}", result.exit_code) : last;
}

std::string hint(const std::string& why) {
  const auto has = [&why](const char* part) { return why.find(part) != std::string::npos; };
  if (has("Unable to locate") || has("No packages found") || has("no installation candidate"))
    return "run apt-get update as root, or fetch the package by hand and import it";
  return has("No space left") ? "make room there, or choose another place" : kByHand;
}

std::string run(const std::string& package, std::vector<std::string> command, const fs::path& folder,
                const std::function<bool()>& keep_going = {}) {
  command.insert(command.begin(), {"env", "LC_ALL=C"});  // messages in English
  const ProgramResult result = run_program(command, folder, keep_going);
  if (result.stopped) fail(package, "nothing came for too long", kByHand);
  if (result.exit_code != 0) {
    const std::string why = reason(result);
    fail(package, why, hint(why));
  }
  return result.output;
}

std::string resolve(const DebianPackage& package, const fs::path& folder) {
  if (package.dependency.empty()) return package.name;
  std::istringstream lines(run(package.name, {"apt-cache", "depends", "--important", package.name}, folder));
  for (std::string line; std::getline(lines, line);) {
    const size_t colon = line.find(": ");
    if (colon == std::string::npos) continue;
    const std::string name = line.substr(colon + 2);
    if (::fnmatch(package.dependency.c_str(), name.c_str(), 0) == 0) return name;
  }
  fail(package.name, fmt::format("depends on no package {}", package.dependency),
       "this release may have changed: fetch the package by hand and import it");
}

struct Listing {
  std::string file, version, sha256;
  int64_t bytes = 0;
};

// 'http://…/x_1.0-1_all.deb' x_1.0-1_all.deb 1234 SHA256:0123…
Listing listing_of(const std::string& package, const std::string& output) {
  const size_t begin = output.find("' ");
  std::istringstream words(begin == std::string::npos ? "" : output.substr(begin + 2));
  Listing listing;
  std::string checksum;
  words >> listing.file >> listing.bytes >> checksum;
  const size_t first = listing.file.find('_'), second = listing.file.rfind('_');
  const bool known = words && checksum.starts_with("SHA256:") && first < second &&
                     listing.file.find('/') == std::string::npos;
  if (!known)
    fail(package, fmt::format("apt-get did not name its file but said \"{}\"", output.substr(0, 200)),
         kByHand);
  listing.version = listing.file.substr(first + 1, second - first - 1);
  if (const size_t epoch = listing.version.find("%3a"); epoch != std::string::npos)
    listing.version.replace(epoch, 3, 1, ':');
  listing.sha256 = checksum.substr(7);
  return listing;
}

int64_t size_of(const fs::path& path) {
  std::error_code error;
  const auto size = fs::file_size(path, error);
  return error ? 0 : static_cast<int64_t>(size);
}

bool is_whole(const fs::path& path, const Listing& listing) {
  return size_of(path) == listing.bytes && sha256_of_file(path) == listing.sha256;
}

void download(const std::string& package, const Listing& listing, const fs::path& folder,
              const OnProgress& on_progress, const AptLimits& limits) {
  const fs::path path = folder / listing.file;
  int64_t bytes = 0;
  Timer since;
  run(package, {"apt-get", "download", "-q", fmt::format("{}={}", package, listing.version)}, folder, [&] {
    const int64_t now = size_of(path);
    if (now > bytes) since.restart();
    bytes = std::max(bytes, now);
    report(on_progress, {.what = "fetch " + package, .done = bytes, .total = listing.bytes, .unit = "bytes"});
    return since.seconds() < std::chrono::duration<double>(limits.pause).count();
  });
  if (is_whole(path, listing)) return;
  std::error_code ignored;
  fs::remove(path, ignored);
  fail(package,
       fmt::format("{} is not the file of {} bytes and SHA-256 {} that apt's index names", listing.file,
                   listing.bytes, listing.sha256),
       "nothing was kept: run apt-get update as root and try again");
}

}  // namespace

DebianFile fetch_debian_package(const DebianPackage& package, const fs::path& folder,
                                const OnProgress& on_progress, const AptLimits& limits) {
  for (const char* program : {"apt-get", "apt-cache"}) {
    if (!find_program(program))
      fail(package.name, fmt::format("{} is not on PATH", program),
           "fetch the package on a Debian system and import it");
  }
  const std::string name = resolve(package, folder);
  // Not in the folder: where the file is there already, apt-get has nothing to say about it.
  const Listing listing = listing_of(name, run(name, {"apt-get", "download", "--print-uris", name}, "/"));
  const fs::path path = folder / listing.file;
  if (!is_whole(path, listing)) download(name, listing, folder, on_progress, limits);
  report(on_progress,
         {.what = "fetch " + name, .done = listing.bytes, .total = listing.bytes, .unit = "bytes"});
  return {.path = path, .package = name, .version = listing.version, .sha256 = listing.sha256};
}

}  // namespace bridle
