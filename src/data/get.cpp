// Getting, importing and listing the known data sets.
#include <fmt/format.h>

#include "base/files.h"
#include "base/nearest.h"
#include "bridle/data.h"
#include "bridle/error.h"
#include "data/catalog.h"
#include "data/dataset.h"

namespace bridle {
namespace {

const Known& find_known(const std::string& name) {
  std::vector<std::string> names;
  for (const Known& known : catalog()) {
    if (known.name == name) return known;
    names.push_back(known.name);
  }
  const std::string meant = nearest_word(name, names);
  throw InputError(
      "data",
      fmt::format(
          "no known data set '{}'{}; bridle data list shows them, and bridle data import {} --text PATH "
          "makes one of your own text",
          name, meant.empty() ? "" : "; did you mean '" + meant + "'?", name));
}

Path empty_folder(const Path& path) {
  std::filesystem::remove_all(path);
  make_folder(path);
  return path;
}

// Tries the origins in turn until one gives the right data.
DataSet fetch(const Known& known, const Path& folder, const Path& downloads, const Listener& listener) {
  std::string failures;
  for (const Origin& origin : known.origins) {
    try {
      if (listener.note) listener.note(fmt::format("{}: fetching from {}", known.name, origin.name));
      const Path originals = empty_folder(downloads / "originals");
      origin.fetch(downloads, originals, listener.progress);
      DataSet data = known.convert(originals, folder, listener.progress);
      data.from = origin.name;
      return data;
    } catch (const InputError& error) {
      failures += fmt::format("\n  {}", error.what());
      if (listener.note && &origin != &known.origins.back())
        listener.note(fmt::format("{}: {}", known.name, error.what()));
    }
  }
  throw InputError("data get", fmt::format("{} could not be fetched:{}\nBring it here by hand and run: "
                                           "bridle data import {} PATH    (PATH is {})",
                                           known.name, failures, known.name, known.import_hint));
}

}  // namespace

bool is_known(const std::string& name) {
  for (const Known& known : catalog()) {
    if (known.name == name) return true;
  }
  return false;
}

DataSet get_data(const std::string& name, const Listener& listener) {
  const Known& known = find_known(name);
  if (data_present(name)) return open_data_set(name);
  return build_data_set(name, [&](const Path& folder, const Path& downloads) {
    return fetch(known, folder, downloads, listener);
  });
}

DataSet import_known(const std::string& name, const Path& path, const Listener& listener) {
  const Known& known = find_known(name);
  return build_data_set(name, [&](const Path& folder, const Path& downloads) {
    const Path originals = empty_folder(downloads / "originals");
    known.take(path, originals, listener.progress);
    DataSet data = known.convert(originals, folder, listener.progress);
    data.from = std::filesystem::absolute(path).string();
    return data;
  });
}

std::vector<KnownData> list_data() {
  const auto bytes_of = [](const Path& folder) {
    int64_t bytes = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder))
      bytes += static_cast<int64_t>(entry.file_size());
    return bytes;
  };
  std::vector<KnownData> list;
  for (const Known& known : catalog()) {
    KnownData row{.name = known.name,
                  .about = known.about,
                  .licence = known.licence,
                  .bytes = known.bytes,
                  .present = data_present(known.name)};
    for (const Origin& origin : known.origins) row.sources.push_back(origin.name);
    if (row.present) row.bytes = bytes_of(data_folder() / known.name);
    list.push_back(row);
  }
  if (!std::filesystem::is_directory(data_folder())) return list;
  for (const auto& entry : std::filesystem::directory_iterator(data_folder())) {
    const std::string name = entry.path().filename().string();
    if (is_known(name) || !std::filesystem::exists(entry.path() / kManifest)) continue;
    const DataSet data = read_manifest(entry.path());
    list.push_back({.name = name,
                    .about = fmt::format("imported; {} outputs", data.outputs),
                    .licence = "yours",
                    .sources = {data.from},
                    .bytes = bytes_of(entry.path()),
                    .present = true});
  }
  return list;
}

}  // namespace bridle
