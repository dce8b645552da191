// The data sets that Bridle knows by name: where each comes from, and how its files become a data set. Origins are tried in
// order; the data is accepted by its own checksum, whichever origin it came from.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "bridle/data.h"

namespace bridle {

using Path = std::filesystem::path;

// Brings the original files into `originals`; downloads that should survive an interruption go to `downloads`.
struct Origin {
  std::string name = {};
  std::function<void(const Path& downloads, const Path& originals, const OnProgress&)> fetch = {};
};

struct Known {
  std::string name = {};
  std::string about = {};
  std::string licence = {};
  int64_t bytes = 0;             // on disk, about
  std::string import_hint = {};  // what PATH is in `bridle data import NAME PATH`
  std::vector<Origin> origins = {};
  // The user's PATH brought into `originals`, as an origin would.
  std::function<void(const Path& path, const Path& originals, const OnProgress&)> take = {};
  // Makes the data set in `folder` of the originals, and checks it. The tokenizer is the one that the user has chosen; null
  // for a data set that needs none.
  std::function<DataSet(const Path& originals, const Path& folder, const OnProgress&, const Tokenizer*)>
      convert = {};
  bool needs_tokenizer = false;
  std::vector<TextSource> parts =
      {};  // of a text of several sources: names, packages, versions, licences, sizes
};

const std::vector<Known>& catalog();

bool is_known(const std::string& name);

}  // namespace bridle
