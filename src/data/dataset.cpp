#include "data/dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/files.h"
#include "base/json_text.h"
#include "bridle/error.h"

namespace bridle {

const char* word(Split split) {
  switch (split) {
    case Split::train:
      return "train";
    case Split::validation:
      return "validation";
    case Split::held_out:
      return "held_out";
  }
  return nullptr;
}

namespace {

using Json = nlohmann::ordered_json;
constexpr int kSchema = 1;
constexpr std::pair<DataKind, const char*> kKinds[] = {{DataKind::tokens, "tokens"},
                                                       {DataKind::images, "images"},
                                                       {DataKind::tokenizer, "tokenizer"},
                                                       {DataKind::vectors, "vectors"}};

Json files_to_json(const std::vector<DataFile>& files, const std::filesystem::path& folder) {
  Json list = Json::array();
  for (const DataFile& file : files) {
    const bool inside = file.path.parent_path() == folder;
    list.push_back({{"file", (inside ? file.path.filename() : file.path).string()}, {"count", file.count}});
    if (!file.source.empty()) list.back()["source"] = file.source;
  }
  return list;
}

std::vector<DataFile> files_from_json(const Json& list, const std::filesystem::path& folder) {
  std::vector<DataFile> files;
  for (const Json& entry : list)
    files.push_back({folder / entry.at("file").get<std::string>(), entry.at("count").get<int64_t>(),
                     entry.value("source", std::string())});
  return files;
}

Json sources_to_json(const std::vector<TextSource>& sources) {
  Json list = Json::array();
  for (const TextSource& source : sources)
    list.push_back({{"name", source.name},
                    {"package", source.package},
                    {"version", source.version},
                    {"licence", source.licence},
                    {"sha256", source.sha256},
                    {"bytes", source.bytes},
                    {"documents", source.documents},
                    {"dropped", source.dropped},
                    {"duplicates", source.duplicates},
                    {"train", source.train},
                    {"validation", source.validation}});
  return list;
}

std::vector<TextSource> sources_from_json(const Json& list) {
  std::vector<TextSource> sources;
  for (const Json& entry : list) {
    const auto text = [&entry](const char* key) { return entry.at(key).get<std::string>(); };
    const auto number = [&entry](const char* key) { return entry.at(key).get<int64_t>(); };
    sources.push_back({.name = text("name"),
                       .package = text("package"),
                       .version = text("version"),
                       .licence = text("licence"),
                       .sha256 = text("sha256"),
                       .bytes = number("bytes"),
                       .documents = number("documents"),
                       .dropped = number("dropped"),
                       .duplicates = number("duplicates"),
                       .train = number("train"),
                       .validation = number("validation")});
  }
  return sources;
}

// Every file of the folder but the manifest, in bytes.
Json sizes_of(const std::filesystem::path& folder) {
  std::map<std::string, uintmax_t> sizes;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.is_regular_file() && entry.path().filename() != kManifest)
      sizes[entry.path().filename()] = entry.file_size();
  }
  return sizes;
}

void check_sizes(const Json& sizes, const std::filesystem::path& folder) {
  for (const auto& [name, size] : sizes.items()) {
    std::error_code error;
    const uintmax_t found = std::filesystem::file_size(folder / name, error);
    if (error) throw std::invalid_argument(fmt::format("{}: {}", name, error.message()));
    if (found != size.get<uintmax_t>())
      throw std::invalid_argument(
          fmt::format("{} has {} bytes instead of {}", name, found, size.get<uintmax_t>()));
  }
}

DataKind kind_from_name(const std::string& name) {
  for (const auto& [kind, text] : kKinds) {
    if (name == text) return kind;
  }
  throw std::invalid_argument("kind '" + name + "' is not known");
}

InputError damaged(const std::filesystem::path& folder, const std::string& why) {
  return {"data", fmt::format("{} is damaged ({}); run bridle data get {}, or import it again with --replace",
                              folder.string(), why, folder.filename().string())};
}

}  // namespace

std::filesystem::path data_folder() {
  const auto variable = [](const char* name) -> std::filesystem::path {
    const char* value = std::getenv(name);
    return value == nullptr ? "" : value;
  };
  if (const auto chosen = variable("BRIDLE_DATA"); !chosen.empty()) return std::filesystem::absolute(chosen);
  if (const auto cache = variable("XDG_CACHE_HOME"); cache.is_absolute()) return cache / "bridle";
  if (const auto home = variable("HOME"); !home.empty()) return home / ".cache" / "bridle";
  throw InputError("data", "there is no home folder to keep data in; set BRIDLE_DATA to a folder");
}

void check_data_name(const std::string& name) {
  const auto allowed = [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '.' || c == '_' || c == '-';
  };
  if (name.empty() || name.size() > 100 || name[0] == '.' || name[0] == '-' ||
      !std::all_of(name.begin(), name.end(), allowed))
    throw InputError(
        "data",
        fmt::format("'{}' cannot be a data set's name; use up to 100 letters, digits and . _ - inside",
                    name));
}

bool data_present(const std::string& name) {
  std::error_code error;
  const bool present = std::filesystem::exists(data_folder() / name / kManifest, error);
  if (error)
    throw InputError("data", fmt::format("{}: {}; choose a folder that you may read with BRIDLE_DATA",
                                         (data_folder() / name).string(), error.message()));
  return present;
}

void write_manifest(const DataSet& data, const std::filesystem::path& folder) {
  const auto* const kind =
      std::find_if(std::begin(kKinds), std::end(kKinds), [&](const auto& k) { return k.first == data.kind; });
  Json manifest{{"schema", kSchema},
                {"name", data.name},
                {"kind", kind->second},
                {"from", data.from},
                {"raw", data.raw},
                {"outputs", data.outputs},
                {"sizes", sizes_of(folder)},
                {"train", files_to_json(data.train, folder)},
                {"validation", files_to_json(data.validation, folder)}};
  if (data.document_token) manifest["document_token"] = *data.document_token;
  if (!data.sources.empty()) manifest["sources"] = sources_to_json(data.sources);
  if (data.vectors)
    manifest["vectors"] = {{"inputs", data.vectors->inputs},
                           {"regression", data.vectors->regression},
                           {"input_bound", data.vectors->input_bound}};
  const std::string text =
      manifest.dump(2, ' ', false, Json::error_handler_t::replace);  // paths may be any bytes
  write_file(folder / kManifest, text + "\n");
}

DataSet read_manifest(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / kManifest;
  try {
    const Json manifest = parse_json(read_file(path), "data", path.string());
    if (manifest.at("schema").get<int>() != kSchema)
      throw std::invalid_argument("its schema is not " + std::to_string(kSchema));
    check_sizes(manifest.at("sizes"), folder);
    DataSet data{.name = manifest.at("name").get<std::string>(),
                 .kind = kind_from_name(manifest.at("kind").get<std::string>()),
                 .folder = folder,
                 .from = manifest.at("from").get<std::string>(),
                 .raw = manifest.at("raw").get<bool>(),
                 .outputs = manifest.at("outputs").get<int64_t>(),
                 .has_tokenizer = std::filesystem::exists(folder / "vocab.json"),
                 .train = files_from_json(manifest.at("train"), folder),
                 .validation = files_from_json(manifest.at("validation"), folder)};
    if (manifest.contains("document_token")) data.document_token = manifest["document_token"].get<Token>();
    if (manifest.contains("sources")) data.sources = sources_from_json(manifest["sources"]);
    if (data.kind == DataKind::vectors) {
      const Json& own = manifest.at("vectors");
      data.vectors = VectorLayout{.inputs = own.at("inputs").get<int64_t>(),
                                  .regression = own.at("regression").get<bool>(),
                                  .input_bound = own.at("input_bound").get<double>()};
      if (data.vectors->inputs < 1 || data.outputs < 1 || !(data.vectors->input_bound > 0.0))
        throw std::invalid_argument("it holds no vectors");
    }
    return data;
  } catch (const Json::exception&) {
    throw damaged(folder, fmt::format("{} lacks a key, or has a value of another type", kManifest));
  } catch (const std::invalid_argument& error) {  // ours
    throw damaged(folder, error.what());
  } catch (const InputError& error) {
    throw damaged(folder, error.what());
  }
}

DataSet open_data_set(const std::string& name) {
  check_data_name(name);
  if (!data_present(name)) {
    throw InputError(
        "data",
        fmt::format("'{}' is not in {}; run bridle data get {}, or bridle data import {} with your own files",
                    name, data_folder().string(), name, name));
  }
  return read_manifest(data_folder() / name);
}

namespace {

// The data set that is there, where it is to be kept; none where it is to be built.
std::optional<DataSet> existing(const BuildOptions& options) {
  const std::filesystem::path place = data_folder() / options.name;
  std::error_code ignored;
  if (std::filesystem::symlink_status(place, ignored).type() == std::filesystem::file_type::not_found)
    return std::nullopt;
  if (!data_present(options.name)) {
    throw InputError("data", fmt::format("{} is there and is not a data set of Bridle's; move it away, or "
                                         "choose another place with BRIDLE_DATA",
                                         place.string()));
  }
  if (options.if_present == IfPresent::replace) return std::nullopt;
  if (options.if_present == IfPresent::refuse)
    throw InputError(
        "data import",
        fmt::format("'{}' is there already; pass --replace to put the new one in its place", options.name));
  try {
    return read_manifest(place);
  } catch (const InputError& error) {
    if (options.note) options.note(error.what());
    return std::nullopt;
  }
}

}  // namespace

DataSet build_data_set(const BuildOptions& options, const Fill& fill) {
  const std::filesystem::path partial = data_folder() / ".partial";
  make_folder(partial);
  const FileLock lock(partial / fmt::format(".{}.lock", options.name), [&options] {
    if (options.note)
      options.note(fmt::format("{}: waiting for another process that works on it", options.name));
  });
  if (auto found = existing(options)) return *found;
  const std::filesystem::path work = partial / options.name;
  const std::filesystem::path folder = work / "ready";
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);  // what an interrupted run left
  make_folder(folder);
  make_folder(work / "downloads");
  try {
    DataSet data = fill(folder, work / "downloads");
    data.name = options.name;
    write_manifest(data, folder);
    publish(folder, data_folder() / options.name);
  } catch (...) {
    std::filesystem::remove_all(folder, ignored);
    std::filesystem::remove(work / "downloads", ignored);  // only where nothing waits there to be resumed
    std::filesystem::remove(work, ignored);
    throw;
  }
  std::filesystem::remove_all(work, ignored);
  return read_manifest(data_folder() / options.name);
}

}  // namespace bridle
