#include "data/npm.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string_view>

#include "base/files.h"
#include "base/stopwatch.h"
#include "base/subprocess.h"
#include "bridle/error.h"

namespace bridle {
namespace {

namespace fs = std::filesystem;

std::string spec(const NpmPackage& package) { return package.name + "@" + package.version; }

[[noreturn]] void fail(const NpmPackage& package, const std::string& reason, const std::string& hint) {
  throw InputError("npm", fmt::format("{}: {}; {}", spec(package), reason, hint));
}

constexpr size_t kLongAnswer = 500'000;

constexpr const char* kByHand =
    "check the network and npm's settings, or fetch the package by hand and import it";

int64_t bytes_below(const fs::path& folder) {
  int64_t bytes = 0;
  std::error_code error;
  for (fs::recursive_directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code vanished;
    const auto size = entry->is_regular_file(vanished) ? entry->file_size(vanished) : 0;
    if (!vanished) bytes += static_cast<int64_t>(size);
  }
  return bytes;
}

// npm's cache for one download. While a tarball comes in, it grows in _cacache/tmp; npm writes the file itself only when
// it has everything.
class PrivateCache {
 public:
  explicit PrivateCache(const fs::path& folder) : path_(fs::absolute(folder) / ".npm_cache") {
    remove();  // what a killed process left
    make_folder(path_);
  }
  ~PrivateCache() { remove(); }
  PrivateCache(const PrivateCache&) = delete;
  PrivateCache& operator=(const PrivateCache&) = delete;

  std::string path() const { return path_.string(); }
  int64_t bytes() const { return bytes_below(path_ / "_cacache"); }

 private:
  void remove() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  fs::path path_;
};

// Notices when nothing has grown for too long.
class Watch {
 public:
  explicit Watch(const NpmLimits& limits) : limits_(limits) {}

  bool patient(int64_t bytes) {
    if (bytes > bytes_) since_.restart();
    bytes_ = std::max(bytes, bytes_);
    return since_.seconds() < std::chrono::duration<double>(limit()).count();
  }
  std::chrono::milliseconds limit() const { return bytes_ == 0 ? limits_.first : limits_.pause; }
  int64_t bytes() const { return bytes_; }

 private:
  const NpmLimits& limits_;
  int64_t bytes_ = 0;
  Timer since_;
};

// The cache also holds what the registry says about the package: never more than the tarball's own bytes.
void tell(const NpmPackage& package, int64_t bytes, const OnProgress& on_progress) {
  const int64_t done = package.bytes > 0 ? std::min(bytes, package.bytes) : bytes;
  report(on_progress,
         {.what = "fetch " + package.name, .done = done, .total = package.bytes, .unit = "bytes"});
}

std::vector<std::string> pack(const NpmPackage& package, const std::vector<std::string>& options) {
  std::vector<std::string> command{
      "npm", "pack", spec(package), "--json", "--ignore-scripts", "--no-update-notifier", "--loglevel=error"};
  command.insert(command.end(), options.begin(), options.end());
  return command;
}

// "npm error code ENOTFOUND", "npm error network request to …": the code and the first line that says something.
std::string reason(const ProgramResult& result) {
  std::string code, telling, last;
  std::istringstream lines(result.errors);
  for (std::string line; std::getline(lines, line);) {
    if (line.empty()) continue;
    last = line;
    const size_t prefix = line.starts_with("npm ERR! ") ? 9 : line.starts_with("npm error ") ? 10 : 0;
    if (prefix == 0) continue;
    const std::string_view rest = std::string_view(line).substr(prefix);
    if (rest.starts_with("code ")) code = fmt::format("npm error {}: ", rest);
    const bool detail =
        std::ranges::any_of(std::array{"code ", "errno ", "syscall ", "path ", "dest ", "A complete log"},
                            [&](const char* word) { return rest.starts_with(word); });
    if (!detail && telling.empty()) telling = rest;
  }
  if (!telling.empty()) return code + telling;
  return last.empty() ? fmt::format("npm ended with exit code {}", result.exit_code) : last;
}

// What npm calls the file: its name without the scope's signs, and the version.
std::string usual_file(const NpmPackage& package) {
  std::string name = package.name;
  if (name.starts_with('@')) name.erase(0, 1);
  std::ranges::replace(name, '/', '-');
  return fmt::format("{}-{}.tgz", name, package.version);
}

fs::path tarball(const NpmPackage& package, const fs::path& folder, const ProgramResult& result) {
  // A list of one package, or, since npm 12, an object with one.
  const auto answer = nlohmann::json::parse(result.output, nullptr, false);
  const bool is_one = (answer.is_array() || answer.is_object()) && answer.size() == 1;
  const auto packed = is_one ? *answer.begin() : nlohmann::json();
  // npm also names every file of the package: of a long list only the end is kept, and the name stands before it.
  if (answer.is_discarded() && result.output.size() >= kLongAnswer &&
      fs::is_regular_file(folder / usual_file(package)))
    return folder / usual_file(package);
  if (!packed.is_object() || !packed.contains("filename") || !packed["filename"].is_string())
    fail(package, fmt::format("npm did not name its file but said \"{}\"", result.output.substr(0, 200)),
         kByHand);
  std::string file = packed["filename"].get<std::string>();
  if (file.starts_with('@')) file.erase(0, 1);  // npm 8 gives the package's name, and the file another one
  std::ranges::replace(file, '/', '-');
  if (!fs::is_regular_file(folder / file))
    fail(package, fmt::format("npm named {}, which is not in {}", file, folder.string()), kByHand);
  return folder / file;
}

ProgramResult run_with_network(const NpmPackage& package, const fs::path& folder,
                               const OnProgress& on_progress, const NpmLimits& limits) {
  const PrivateCache cache(folder);
  Watch watch(limits);
  const std::vector<std::string> options{"--cache", cache.path(), "--fetch-retries=1",
                                         "--fetch-retry-mintimeout=500"};
  ProgramResult result = run_program(pack(package, options), folder, [&] {
    const bool patient = watch.patient(cache.bytes());
    tell(package, watch.bytes(), on_progress);
    return patient;
  });
  if (result.stopped)
    fail(package, fmt::format("nothing came for {} s", std::chrono::duration<double>(watch.limit()).count()),
         kByHand);
  if (result.exit_code != 0) {
    const std::string why = reason(result);
    fail(package, why,
         why.find("ENOSPC") != std::string::npos ? "make room there, or choose another place" : kByHand);
  }
  return result;
}

}  // namespace

// First from the cache that this machine has, without the network: it may have been filled for that. A download goes
// through a cache of its own, because only there can its growth be told from others' and it leaves no second copy behind.
fs::path fetch_npm_package(const NpmPackage& package, const fs::path& folder, const OnProgress& on_progress,
                           const NpmLimits& limits) {
  if (!find_program("npm"))
    fail(package, "npm is not on PATH",
         "install it (apt-get install npm), or fetch the package by hand and import it");
  Watch watch(limits);
  ProgramResult result = run_program(pack(package, {"--offline"}), folder, [&] { return watch.patient(0); });
  if (result.stopped || result.exit_code != 0)
    result = run_with_network(package, folder, on_progress, limits);
  fs::path path = tarball(package, folder, result);
  if (package.bytes > 0) tell(package, package.bytes, on_progress);
  return path;
}

}  // namespace bridle
