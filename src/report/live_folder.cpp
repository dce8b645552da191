#include "report/live_folder.h"

#include <fmt/format.h>

#include <algorithm>

#include "bridle/error.h"
#include "report/run_report.h"

namespace bridle {
namespace {

namespace fs = std::filesystem;

constexpr int kDeepest = 3;
constexpr size_t kMostRuns = 24;
constexpr const char* kFiles[] = {"run.json",         "config.toml", "metrics.jsonl", "certificate.json",
                                  "predictions.json", "attack.json", "attack.png",    "samples.jsonl"};

// Files come and go while a run writes them.
fs::file_time_type changed(const fs::path& run) {
  std::error_code gone;
  fs::file_time_type newest = fs::file_time_type::min();
  for (const char* name : {"metrics.jsonl", "config.toml"}) {
    const fs::file_time_type time = fs::last_write_time(run / name, gone);
    if (!gone) newest = std::max(newest, time);
  }
  return newest;
}

void find_runs(const fs::path& folder, int depth, std::vector<fs::path>& runs) {
  if (is_run(folder)) return runs.push_back(folder);
  if (depth == kDeepest) return;
  std::error_code gone;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, gone))
    if (entry.is_directory(gone) && !entry.is_symlink(gone)) find_runs(entry.path(), depth + 1, runs);
}

}  // namespace

LiveFolder::LiveFolder(const fs::path& folder) {
  if (!fs::is_directory(folder))
    throw InputError("serve", fmt::format("{} is not a folder; name one with runs", folder.string()));
  root_ = fs::canonical(folder);
}

std::optional<fs::path> LiveFolder::inside(const std::string& path) const {
  if (path.find('\0') != std::string::npos) return std::nullopt;
  std::error_code missing;
  const fs::path wanted = fs::canonical(root_ / fs::path("./" + path), missing);
  if (missing || !fs::is_directory(wanted, missing)) return std::nullopt;
  const auto [end, rest] = std::mismatch(root_.begin(), root_.end(), wanted.begin(), wanted.end());
  return end == root_.end() ? std::optional(wanted) : std::nullopt;
}

std::vector<fs::path> LiveFolder::runs_in(const fs::path& folder) {
  std::vector<fs::path> runs;
  find_runs(folder, 0, runs);
  std::sort(runs.begin(), runs.end(),
            [](const fs::path& a, const fs::path& b) { return changed(a) > changed(b); });
  if (runs.size() > kMostRuns) runs.resize(kMostRuns);
  std::sort(runs.begin(), runs.end());
  return runs;
}

std::string LiveFolder::tag_of(const std::vector<fs::path>& runs) {
  size_t hash = runs.size();
  const auto mix = [&hash](size_t value) {
    hash ^= value + 0x9E3779B97F4A7C15U + (hash << 6U) + (hash >> 2U);
  };
  std::error_code gone;
  for (const fs::path& run : runs) {
    mix(fs::hash_value(run));
    for (const char* name : kFiles) {
      const auto size = fs::file_size(run / name, gone);
      mix(gone ? 0 : static_cast<size_t>(size) + 1);
      const auto time = fs::last_write_time(run / name, gone);
      mix(gone ? 0 : static_cast<size_t>(time.time_since_epoch().count()));
    }
  }
  return fmt::format("\"{:016x}\"", hash);
}

std::string LiveFolder::data_of(const fs::path& folder, const std::vector<fs::path>& runs) {
  const std::lock_guard lock(mutex_);
  return report_data(runs, {.title = folder.filename().string(), .live = true}, readers_);
}

}  // namespace bridle
