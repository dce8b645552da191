// See shard.h, and shard_of in bridle/sweep.h.
#include "sweep/shard.h"

#include <fmt/format.h>

#include <algorithm>

#include "bridle/error.h"
#include "bridle/sweep.h"

namespace bridle {

namespace fs = std::filesystem;

std::vector<fs::path> results_files(const fs::path& results) {
  std::vector<fs::path> files;
  if (fs::exists(results)) files.push_back(results);
  const std::string prefix = results.stem().string() + ".shard_";
  std::vector<fs::path> shards;
  std::error_code missing;
  for (const auto& entry : fs::directory_iterator(fs::absolute(results).parent_path(), missing)) {
    const fs::path name = entry.path().filename();
    if (name.string().starts_with(prefix) && name.extension() == results.extension())
      shards.push_back(results.parent_path() / name);
  }
  std::sort(shards.begin(), shards.end());
  files.insert(files.end(), shards.begin(), shards.end());
  return files;
}

Sweep shard_of(Sweep sweep, int64_t number, int64_t count) {
  if (count < 1 || number < 1 || number > count)
    throw InputError("sweep",
                     fmt::format("--shard must be i/n with i from 1 to n, got {}/{}", number, count));
  std::vector<SweepRun> own;
  for (size_t i = 0; i < sweep.runs.size(); ++i)
    if (static_cast<int64_t>(i) % count == number - 1) own.push_back(std::move(sweep.runs[i]));
  sweep.runs = std::move(own);
  const std::string name = fmt::format("shard_{}_of_{}", number, count);
  sweep.folder /= name;
  sweep.results.replace_filename(
      fmt::format("{}.{}{}", sweep.results.stem().string(), name, sweep.results.extension().string()));
  return sweep;
}

}  // namespace bridle
