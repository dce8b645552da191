#include "train/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/files.h"
#include "bridle/error.h"

namespace bridle {
namespace {

using Path = std::filesystem::path;
using Json = nlohmann::ordered_json;
constexpr size_t kKept = 2;
constexpr int kSchema = 1;

// Whole checkpoints, oldest first.
std::vector<Path> checkpoints(const Path& run) {
  std::vector<Path> found;
  if (!std::filesystem::is_directory(run / "state")) return found;
  for (const auto& entry : std::filesystem::directory_iterator(run / "state")) {
    if (entry.path().filename().string().starts_with("step_")) found.push_back(entry.path());
  }
  std::sort(found.begin(), found.end());
  return found;
}

Checkpoint read_checkpoint(const Path& folder) {
  try {
    const Json facts = Json::parse(read_file(folder / "state.json"));
    if (facts.at("schema").get<int>() != kSchema) throw std::invalid_argument("unknown schema");
    return {.step = facts.at("step").get<int64_t>(),
            .loader_position = facts.at("loader_position").get<int64_t>(),
            .metrics_bytes = facts.at("metrics_bytes").get<int64_t>(),
            .repairs = facts.at("repairs").get<int64_t>(),
            .seconds = facts.at("seconds").get<double>(),
            .tensors = read_safetensors(folder / "state.safetensors")};
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    throw InputError("checkpoint", fmt::format("{}: {}", (folder / "state.json").string(), error.what()));
  }
}

}  // namespace

void write_checkpoint(const Path& run, const Checkpoint& checkpoint) {
  const Path state = run / "state";
  const Path unfinished = state / ".unfinished";
  std::filesystem::remove_all(unfinished);  // what a killed run left
  make_folder(unfinished);
  write_safetensors(unfinished / "state.safetensors", checkpoint.tensors);
  const Json facts{{"schema", kSchema},
                   {"step", checkpoint.step},
                   {"loader_position", checkpoint.loader_position},
                   {"metrics_bytes", checkpoint.metrics_bytes},
                   {"repairs", checkpoint.repairs},
                   {"seconds", checkpoint.seconds}};
  write_file(unfinished / "state.json", facts.dump(2) + "\n");
  publish(unfinished, state / fmt::format("step_{:08}", checkpoint.step));
  const std::vector<Path> all = checkpoints(run);
  for (size_t i = 0; i + kKept < all.size(); ++i) std::filesystem::remove_all(all[i]);
}

std::optional<Checkpoint> read_newest_checkpoint(const Path& run, std::string* trouble) {
  const std::vector<Path> all = checkpoints(run);
  std::string reasons;
  for (auto folder = all.rbegin(); folder != all.rend(); ++folder) {
    try {
      Checkpoint checkpoint = read_checkpoint(*folder);
      if (trouble != nullptr) *trouble = reasons;
      return checkpoint;
    } catch (const InputError& error) {
      reasons += fmt::format("{}{}", reasons.empty() ? "" : "; ", error.what());
    }
  }
  if (all.empty()) return std::nullopt;
  throw InputError("checkpoint",
                   fmt::format("no checkpoint in {} can be read: {}", (run / "state").string(), reasons));
}

}  // namespace bridle
