// Many runs from one file: a recipe, what all of them have in common, and grids of what is tried. A SQLite database remembers which
// runs are waiting, at work or done; workers, as many processes as there is room for, take one at a time. A worker that is killed
// loses nothing but the steps since its run's last checkpoint. Finished results also go to a CSV file, which can be committed: a sweep
// that finds one goes on from there on another machine.
//
//   const Sweep sweep = read_sweep("experiments/shapes/search_shape.toml");
//   SweepRecord(sweep).work({});
#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace bridle {

struct SweepRun {
  std::string key;  // the group, and a digest of all settings that its recipe and its file name
  std::string group;
  std::filesystem::path recipe = {};
  std::vector<std::string> set = {};               // section.key=value over the recipe
  std::map<std::string, std::string> varied = {};  // of these, what a grid varies
  int64_t steps = 0;
};

struct Sweep {
  std::filesystem::path file;
  std::filesystem::path folder;   // for the database and the runs at work
  std::filesystem::path results;  // CSV
  bool keep = false;              // whether folders of finished runs stay
  std::vector<SweepRun> runs;     // in the order of their turn
};

// docs/how-to/sweep.md has the keys. Throws InputError, for a file that cannot be read, an unknown key, or a setting that no recipe has.
Sweep read_sweep(const std::filesystem::path& file);

// One of `count` jobs that share a sweep, numbered from 1: every count-th run. It has a database and results of its own beside those of
// the sweep, so that jobs need to see nothing of each other; a SweepRecord of the whole takes their results in. Throws
// InputError for numbers that make no sense.
Sweep shard_of(Sweep sweep, int64_t number, int64_t count);

enum class SweepStatus { waiting, running, done, diverged, failed };
const char* sweep_status_name(SweepStatus status);

struct SweepEntry {
  std::string key;
  std::string group;
  SweepStatus status = SweepStatus::waiting;
  int64_t step = 0, steps = 0;
  bool wanted = true;                             // false: only an older version of the file had it
  std::map<std::string, std::string> cells = {};  // of its line in the CSV file
};

std::optional<double> number_in(const SweepEntry& entry, const std::string& column);  // where it holds one

// Lines as in the CSV file, of finished runs; or all of them as JSON.
std::string sweep_csv(const std::vector<SweepEntry>& entries);
std::string sweep_json(const std::vector<SweepEntry>& entries);

// Seconds that the rest will take with so many workers, from the finished runs; none without any.
std::optional<double> sweep_seconds_left(const std::vector<SweepEntry>& entries, int workers);

struct SweepWorkerOptions {
  std::string commit = {};                  // to be recorded
  const std::atomic<bool>* stop = nullptr;  // saves the run at work, which then waits for the next worker
};

class Registry;

// A sweep and its database, which knows the file's runs and the CSV file's results.
class SweepRecord {
 public:
  enum class For { work, looking };
  // Makes the database where there is none; for looking, in memory alone. Throws InputError.
  explicit SweepRecord(Sweep sweep, For purpose = For::work);
  ~SweepRecord();

  std::vector<SweepEntry> entries() const;
  void write_results() const;  // the CSV file
  void retry_failed();         // lets runs that failed wait again

  // Takes runs and trains them until none is left: a worker's whole life. A run's own failure is its result; throws what ends the
  // sweep.
  void work(const SweepWorkerOptions& options);

 private:
  bool train_one(const SweepRun& run, const SweepWorkerOptions& options);
  std::vector<std::map<std::string, std::string>> known_results() const;  // of the CSV file
  Sweep sweep_;
  std::unique_ptr<Registry> registry_;
};

}  // namespace bridle
