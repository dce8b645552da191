// A folder of runs that is looked at again and again: which runs it has, whether something has changed, and all of it as data.
#pragma once

#include <filesystem>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "report/report_data.h"

namespace bridle {

class LiveFolder {
 public:
  explicit LiveFolder(const std::filesystem::path& folder);  // throws InputError where it is no folder

  // The folder that a path of a URL names, with every link followed; none where it is outside or no folder.
  std::optional<std::filesystem::path> inside(const std::string& path) const;

  // The folder itself where it is a run, or the runs in it, at most three folders deep and the newest 24; links are not followed.
  static std::vector<std::filesystem::path> runs_in(const std::filesystem::path& folder);

  // Changes whenever a file that the page shows does.
  static std::string tag_of(const std::vector<std::filesystem::path>& runs);

  std::string data_of(const std::filesystem::path& folder, const std::vector<std::filesystem::path>& runs);

 private:
  std::filesystem::path root_;
  std::mutex mutex_;
  MetricsReaders readers_;
};

}  // namespace bridle
