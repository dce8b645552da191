// Getting, importing and listing the known data sets.
#include <fmt/format.h>

#include <algorithm>

#include "base/files.h"
#include "base/nearest.h"
#include "bridle/data.h"
#include "bridle/error.h"
#include "data/catalog.h"
#include "data/dataset.h"
#include "data/tokenizer_choice.h"

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

// A folder for the original files, empty at first, that goes with its owner.
class Originals {
 public:
  explicit Originals(const Path& downloads) : path_(downloads / "originals") {
    std::filesystem::remove_all(path_);
    make_folder(path_);
  }
  ~Originals() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Originals(const Originals&) = delete;
  Originals& operator=(const Originals&) = delete;
  const Path& path() const { return path_; }

 private:
  Path path_;
};

// Tries the origins in turn until one gives the right data.
DataSet fetch(const Known& known, const Path& folder, const Path& downloads, const Tokenizer* tokenizer,
              const Listener& listener) {
  std::string failures;
  for (const Origin& origin : known.origins) {
    try {
      if (listener.note) listener.note(fmt::format("{}: fetching from {}", known.name, origin.name));
      const Originals originals(downloads);
      origin.fetch(downloads, originals.path(), listener.progress);
      DataSet data = known.convert(originals.path(), folder, listener.progress, tokenizer);
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

// Known texts of several sources get the tokenizer that is asked for; all others have one, or need none.
std::unique_ptr<Tokenizer> tokenizer_for(const Known& known, const GetOptions& options,
                                         const Listener& listener) {
  if (!known.needs_tokenizer) return nullptr;
  auto tokenizer = open_tokenizer(options.tokenizer.value_or(TokenizerChoice{.name = "gpt2"}), listener);
  if (!tokenizer)
    throw InputError("data get",
                     fmt::format("{} has documents, which characters cannot be told apart by; use "
                                 "--tokenizer gpt2",
                                 known.name));
  return tokenizer;
}

BuildOptions build_options(const Known& known, const GetOptions& options, const Listener& listener) {
  if (options.tokenizer && !known.needs_tokenizer)
    throw InputError(
        "data get", fmt::format("{} has tokens of its own; a tokenizer cannot be chosen for it", known.name));
  const std::string name = options.as.empty() ? known.name : options.as;
  check_data_name(name);
  if (name != known.name && is_known(name))
    throw InputError("data get", fmt::format("'{}' is another known data set; choose another name", name));
  return {.name = name,
          .if_present = options.replace ? IfPresent::replace : IfPresent::keep,
          .note = listener.note};
}

// What is there already may have been made with other merges.
DataSet checked(DataSet data, const GetOptions& options) {
  if (!options.tokenizer || options.tokenizer->name != "gpt2") return data;
  const int64_t wanted = options.tokenizer->merges.value_or(50000) + 257;
  if (data.outputs != wanted)
    throw InputError(
        "data get",
        fmt::format("'{}' is there with a vocabulary of {}, and {} was asked for; pass --replace, or "
                    "keep the other one under another name with --as",
                    data.name, data.outputs, wanted));
  return data;
}

}  // namespace

bool is_known(const std::string& name) {
  for (const Known& known : catalog()) {
    if (known.name == name) return true;
  }
  return false;
}

DataSet get_data(const std::string& name, const Listener& listener) {
  return get_data(name, GetOptions{}, listener);
}

DataSet get_data(const std::string& name, const GetOptions& options, const Listener& listener) {
  const Known& known = find_known(name);
  const auto fill = [&](const Path& folder, const Path& downloads) {
    const auto tokenizer = tokenizer_for(known, options, listener);
    return fetch(known, folder, downloads, tokenizer.get(), listener);
  };
  return checked(build_data_set(build_options(known, options, listener), fill), options);
}

DataSet import_known(const std::string& name, const Path& path, const Listener& listener) {
  return import_known(name, path, GetOptions{}, listener);
}

DataSet import_known(const std::string& name, const Path& path, const GetOptions& options,
                     const Listener& listener) {
  const Known& known = find_known(name);
  const auto fill = [&](const Path& folder, const Path& downloads) {
    const auto tokenizer = tokenizer_for(known, options, listener);
    const Originals originals(downloads);
    known.take(path, originals.path(), listener.progress);
    DataSet data = known.convert(originals.path(), folder, listener.progress, tokenizer.get());
    data.from = std::filesystem::absolute(path).string();
    return data;
  };
  return checked(build_data_set(build_options(known, options, listener), fill), options);
}

namespace {

// Bytes of the folder's files and of token files elsewhere that the data set names.
int64_t bytes_of(const DataSet& data) {
  std::error_code ignored;
  int64_t bytes = 0;
  for (const auto& entry : std::filesystem::directory_iterator(data.folder, ignored)) {
    const uintmax_t size = entry.file_size(ignored);
    if (!ignored) bytes += static_cast<int64_t>(size);
  }
  for (const auto* files : {&data.train, &data.validation}) {
    for (const DataFile& file : *files) {
      const uintmax_t size =
          file.path.parent_path() == data.folder ? 0 : std::filesystem::file_size(file.path, ignored);
      if (!ignored) bytes += static_cast<int64_t>(size);
    }
  }
  return bytes;
}

// Fills in what is there of a data set; one that is damaged is shown as that.
void look_at(KnownData& row) {
  try {
    row.present = data_present(row.name);
    if (!row.present) return;
    const DataSet data = read_manifest(data_folder() / row.name);
    row.bytes = bytes_of(data);
    if (row.about.empty()) row.about = fmt::format("imported; {} outputs", data.outputs);
    if (row.sources.empty()) row.sources = {data.from};
    if (!data.sources.empty()) row.parts = data.sources;
    if (!data.sources.empty()) row.licence = "each source has its own";
  } catch (const InputError& error) {
    row.damage = error.what();
  }
}

}  // namespace

std::vector<KnownData> list_data() {
  std::vector<KnownData> list;
  for (const Known& known : catalog()) {
    list.push_back({.name = known.name,
                    .about = known.about,
                    .licence = known.licence,
                    .parts = known.parts,
                    .bytes = known.bytes});
    for (const Origin& origin : known.origins) list.back().sources.push_back(origin.name);
    look_at(list.back());
  }
  std::error_code ignored;
  std::vector<std::string> own;
  for (const auto& entry : std::filesystem::directory_iterator(data_folder(), ignored)) {
    const std::string name = entry.path().filename().string();
    if (!is_known(name) && std::filesystem::exists(entry.path() / kManifest, ignored)) own.push_back(name);
  }
  std::sort(own.begin(), own.end());
  for (const std::string& name : own) {
    list.push_back({.name = name, .licence = "yours"});
    look_at(list.back());
  }
  return list;
}

}  // namespace bridle
