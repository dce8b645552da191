// Where the shards of a sweep keep their results.
#pragma once

#include <filesystem>
#include <vector>

namespace bridle {

// The files that are there of a sweep's results: its own, and those of its shards, "sweep.csv" and "sweep.shard_2_of_8.csv".
std::vector<std::filesystem::path> results_files(const std::filesystem::path& results);

}  // namespace bridle
