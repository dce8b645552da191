#include "train/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/checksum.h"
#include "base/files.h"
#include "base/json_text.h"
#include "bridle/error.h"
#include "io/safetensors_decode.h"

namespace bridle {
namespace {

using Path = std::filesystem::path;
using Json = nlohmann::ordered_json;
constexpr int kSchema = 1;
constexpr const char* kFacts = "state.json";
constexpr const char* kTensors = "state.safetensors";
constexpr const char* kRecipe = "config.toml";
constexpr const char* kSums = "SHA256SUMS";
constexpr std::array kFiles = {kRecipe, kFacts, kTensors};  // all that SHA256SUMS lists

struct Place {
  int64_t step;
  Path folder;
};

// Whole checkpoints, oldest first.
std::vector<Place> checkpoints(const Path& run) {
  std::vector<Place> found;
  if (!std::filesystem::is_directory(run / "state")) return found;
  for (const auto& entry : std::filesystem::directory_iterator(run / "state")) {
    const std::string name = entry.path().filename().string();
    constexpr std::string_view prefix = "step_";
    if (!name.starts_with(prefix)) continue;
    int64_t step = 0;
    const char* end = name.data() + name.size();
    const auto [rest, error] = std::from_chars(name.data() + prefix.size(), end, step);
    if (error == std::errc() && rest == end) found.push_back({step, entry.path()});
  }
  std::sort(found.begin(), found.end(), [](const Place& a, const Place& b) { return a.step < b.step; });
  return found;
}

std::string sum_line(std::span<const std::byte> bytes, const char* name) {
  Sha256 hash;
  hash.update(bytes);
  return fmt::format("{}  {}\n", hash.digest(), name);
}

// The files of one checkpoint, mapped once: what is verified is what is decoded.
class Files {
 public:
  explicit Files(const Path& folder) {
    const std::string sums = read_file(folder / kSums);
    std::string expected;
    for (const char* name : kFiles) {
      const std::string line = sum_line(files_.emplace_back(folder / name).bytes(), name);
      if (sums.find(line) == std::string::npos)
        throw InputError("checkpoint",
                         fmt::format("{} does not have the digest that {} states for it: it is damaged",
                                     (folder / name).string(), kSums));
      expected += line;
    }
    if (sums != expected)
      throw InputError("checkpoint", fmt::format("{} lists more than the checkpoint's files: it is damaged",
                                                 (folder / kSums).string()));
  }
  const MappedFile& operator[](size_t index) const { return files_[index]; }

 private:
  std::vector<MappedFile> files_;
};

template <class T>
T number_in(const Json& facts, const char* key, const Path& path) {
  const Json value = facts.is_object() ? facts.value(key, Json()) : Json();
  if (!value.is_number())
    throw InputError("checkpoint",
                     fmt::format("{}: {} must be a number, got {}; another version of Bridle wrote it",
                                 path.string(), key, value.dump()));
  return value.get<T>();
}

Checkpoint read_checkpoint(const Path& folder) {
  const Files files(folder);
  const Path path = folder / kFacts;
  const Json facts = parse_json(files[1].text(), "checkpoint", path.string());
  if (const int schema = number_in<int>(facts, "schema", path); schema != kSchema)
    throw InputError("checkpoint",
                     fmt::format("{}: schema must be {}, got {}; another version of Bridle wrote it",
                                 path.string(), kSchema, schema));
  return {.step = number_in<int64_t>(facts, "step", path),
          .loader_position = number_in<int64_t>(facts, "loader_position", path),
          .metrics_bytes = number_in<int64_t>(facts, "metrics_bytes", path),
          .repairs = number_in<int64_t>(facts, "repairs", path),
          .seconds = number_in<double>(facts, "seconds", path),
          .recipe = std::string(files[0].text()),
          .tensors = decode_safetensors(files[2].bytes(), folder / kTensors)};
}

}  // namespace

void write_checkpoint(const Path& run, const Checkpoint& checkpoint, std::optional<int64_t> before) {
  const Path state = run / "state";
  const Path unfinished = state / ".unfinished";
  std::filesystem::remove_all(unfinished);  // what a killed run left
  make_folder(unfinished);
  write_safetensors(unfinished / kTensors, checkpoint.tensors);
  const Json facts{{"schema", kSchema},
                   {"step", checkpoint.step},
                   {"loader_position", checkpoint.loader_position},
                   {"metrics_bytes", checkpoint.metrics_bytes},
                   {"repairs", checkpoint.repairs},
                   {"seconds", checkpoint.seconds}};
  write_file(unfinished / kFacts, facts.dump(2) + "\n");
  write_file(unfinished / kRecipe, checkpoint.recipe);
  std::string sums;
  for (const char* name : kFiles) sums += sum_line(MappedFile(unfinished / name).bytes(), name);
  write_file(unfinished / kSums, sums);
  publish(unfinished, state / fmt::format("step_{:08}", checkpoint.step));
  for (const Place& place : checkpoints(run))
    if (place.step != checkpoint.step && place.step != before) std::filesystem::remove_all(place.folder);
}

std::optional<Checkpoint> read_newest_checkpoint(const Path& run, std::string* trouble) {
  const std::vector<Place> all = checkpoints(run);
  std::string reasons;
  for (auto place = all.rbegin(); place != all.rend(); ++place) {
    try {
      Checkpoint checkpoint = read_checkpoint(place->folder);
      if (trouble != nullptr) *trouble = reasons;
      return checkpoint;
    } catch (const InputError& error) {
      reasons += fmt::format("{}{}", reasons.empty() ? "" : "; ", error.what());
    }
  }
  if (all.empty()) return std::nullopt;
  throw InputError(
      "checkpoint",
      fmt::format("no checkpoint in {} verifies: {}; restore one from a copy, or train anew into "
                  "another --out",
                  (run / "state").string(), reasons));
}

}  // namespace bridle
