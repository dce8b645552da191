// bridle sweep: many runs, one database, several workers.
#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <set>
#include <thread>
#include <utility>

#include "base/files.h"
#include "bound_text.h"
#include "bridle/error.h"
#include "bridle/sweep.h"
#include "progress_line.h"
#include "stop_signals.h"
#include "verbs.h"
#include "version.h"

extern char** environ;

namespace bridle {
namespace {

struct Flags {
  std::string file;
  int workers = 0;  // 0: one per core
  int threads = 0;  // of each; 0: the cores, shared
  bool retry = false;
  std::string shard;
  int worker_of = 0;
  std::string csv, json;
};

Sweep sweep_of(const Flags& flags) {
  Sweep sweep = read_sweep(flags.file);
  if (flags.shard.empty()) return sweep;
  int64_t number = 0, count = 0;
  int end = 0;
  // NOLINTNEXTLINE(cert-err34-c): %n says whether all of it was read
  if (std::sscanf(flags.shard.c_str(), "%ld/%ld%n", &number, &count, &end) != 2 ||
      end != static_cast<int>(flags.shard.size()))
    throw UsageError("sweep run", fmt::format("--shard must be i/n, such as 2/8, got {}", flags.shard));
  return shard_of(std::move(sweep), number, count);
}

bool is_finished(const SweepEntry& entry) {
  return entry.status != SweepStatus::waiting && entry.status != SweepStatus::running;
}

int64_t count_of(const std::vector<SweepEntry>& entries, SweepStatus status) {
  return std::count_if(entries.begin(), entries.end(),
                       [status](const SweepEntry& entry) { return entry.wanted && entry.status == status; });
}

std::string cell(const SweepEntry& entry, const char* name) {
  const auto found = entry.cells.find(name);
  return found == entry.cells.end() ? "" : found->second;
}

// ---- status

void print_group(const std::string& name, const std::vector<SweepEntry>& entries) {
  int64_t done = 0, all = 0;
  const SweepEntry* best = nullptr;
  for (const SweepEntry& entry : entries) {
    if (!entry.wanted || entry.group != name) continue;
    ++all;
    done += is_finished(entry) ? 1 : 0;
    if (entry.status != SweepStatus::done) continue;
    const auto loss = number_in(entry, "loss");
    if (loss && (best == nullptr || *loss < *number_in(*best, "loss"))) best = &entry;
  }
  std::string settings;
  if (best != nullptr) {
    for (const auto& [key, value] : best->cells)
      if (key.find('.') != std::string::npos) settings += fmt::format("  {}={}", key, value);
  }
  const auto number = [best](const char* key, std::string (*text)(double)) {
    const auto value = best == nullptr ? std::nullopt : number_in(*best, key);
    return value ? text(*value) : std::string();
  };
  const auto loss = [](double value) { return fmt::format("{:.4f}", value); };
  fmt::print("{:<28}{:>6} of {:<6}{:>10}{:>12}{:>12} {}\n", name, done, all, number("loss", loss),
             number("log10_bound", log_text), number("log10_paper_bound", log_text), settings);
}

void status(const Sweep& sweep) {
  const std::vector<SweepEntry> entries = SweepRecord(sweep, SweepRecord::For::looking).entries();
  const auto count = [&entries](SweepStatus s) { return count_of(entries, s); };
  fmt::print("{} runs: {} done, {} diverged, {} failed, {} running, {} waiting\n", sweep.runs.size(),
             count(SweepStatus::done), count(SweepStatus::diverged), count(SweepStatus::failed),
             count(SweepStatus::running), count(SweepStatus::waiting));
  const int workers = static_cast<int>(std::max<int64_t>(1, count(SweepStatus::running)));
  if (const auto left = sweep_seconds_left(entries, workers); left && *left > 0.0)
    fmt::print("time left with {} worker{}: {}\n", workers, workers == 1 ? "" : "s", shown_time(*left));
  for (const SweepEntry& entry : entries) {
    if (entry.status == SweepStatus::running)
      fmt::print("  {}  step {} of {}\n", entry.key, entry.step, entry.steps);
    if (entry.status == SweepStatus::failed && entry.wanted)
      fmt::print("  {}  failed: {}\n", entry.key, cell(entry, "error"));
  }
  fmt::print("\n{:<28}{:>16}{:>10}{:>12}{:>12}  settings of the best\n", "group", "finished", "loss",
             "log10 L", "paper's");
  std::set<std::string> names;
  for (const SweepEntry& entry : entries)
    if (entry.wanted && names.insert(entry.group).second) print_group(entry.group, entries);
  fmt::print("\nresults: {}\n", sweep.results.string());
}

void export_results(const Sweep& sweep, const Flags& flags) {
  const std::vector<SweepEntry> entries = SweepRecord(sweep, SweepRecord::For::looking).entries();
  if (!flags.csv.empty()) write_file(flags.csv, sweep_csv(entries));
  if (!flags.json.empty()) write_file(flags.json, sweep_json(entries));
  if (flags.csv.empty() && flags.json.empty()) fmt::print("{}", sweep_csv(entries));
}

// ---- workers

// This program again, as a worker with so many threads.
pid_t start_worker(const Flags& flags, int threads) {
  std::vector<std::string> environment;
  for (char** entry = environ; *entry != nullptr; ++entry)
    if (!std::string_view(*entry).starts_with("OMP_NUM_THREADS=")) environment.emplace_back(*entry);
  environment.push_back(fmt::format("OMP_NUM_THREADS={}", threads));
  std::vector<std::string> arguments = {"bridle",   "sweep",       "run",
                                        flags.file, "--worker-of", std::to_string(getpid())};
  if (!flags.shard.empty()) arguments.insert(arguments.end(), {"--shard", flags.shard});
  const auto pointers = [](std::vector<std::string>& texts) {
    std::vector<char*> result;
    for (std::string& text : texts) result.push_back(text.data());
    result.push_back(nullptr);
    return result;
  };
  pid_t child = 0;
  const int error = posix_spawn(&child, "/proc/self/exe", nullptr, nullptr, pointers(arguments).data(),
                                pointers(environment).data());
  if (error != 0)
    throw InputError("sweep", fmt::format("a worker could not be started: {}", std::strerror(error)));
  return child;
}

class Workers {
 public:
  Workers(const Flags& flags, int count, int threads) : flags_(flags), threads_(threads) {
    for (int i = 0; i < count; ++i) running_.insert(start_worker(flags, threads));
  }

  // One that was killed is followed by another, unless nothing has been finished since many were; one that had an error of its own
  // is not.
  void look_after(int64_t finished) {
    if (finished > std::exchange(finished_, finished)) killed_ = 0;
    int state = 0;
    for (pid_t child; (child = waitpid(-1, &state, WNOHANG)) > 0;) {
      running_.erase(child);
      const int code = WIFEXITED(state) ? WEXITSTATUS(state) : 0;
      const bool signalled = WIFSIGNALED(state) || code > 128;  // killed, or asked to save and end
      if (code != 0 && !signalled) failed_ = true;
      if (!signalled || stop_requested) continue;
      constexpr int most = 12;
      if (++killed_ > most)
        failed_ = true;
      else
        running_.insert(start_worker(flags_, threads_));
    }
  }

  void stop() {
    for (const pid_t child : running_) kill(child, SIGTERM);
  }

  bool any() const { return !running_.empty(); }
  bool failed() const { return failed_; }

 private:
  const Flags& flags_;
  int threads_;
  std::set<pid_t> running_;
  int64_t finished_ = 0;
  int killed_ = 0;
  bool failed_ = false;
};

class Display {
 public:
  void show(const std::vector<SweepEntry>& entries, int workers, bool last) {
    int64_t finished = 0, wanted = 0;
    for (const SweepEntry& entry : entries) {
      if (!entry.wanted) continue;
      ++wanted;
      if (!is_finished(entry)) continue;
      ++finished;
      if (told_.insert(entry.key).second && !first_) tell(entry);
    }
    first_ = false;
    const std::string text =
        fmt::format("{} of {} runs, {} at work", finished, wanted, count_of(entries, SweepStatus::running));
    line_.show_text(text, sweep_seconds_left(entries, workers), last);
  }

 private:
  void tell(const SweepEntry& entry) {
    std::string text = entry.group;
    for (const auto& [key, value] : entry.cells)
      if (key.find('.') != std::string::npos) text += fmt::format("  {}={}", key, value);
    if (entry.status == SweepStatus::done)
      text += fmt::format("  loss {}  log10 L {}", cell(entry, "loss"), cell(entry, "log10_bound"));
    else
      text += fmt::format("  {}: {}", sweep_status_name(entry.status), cell(entry, "error"));
    line_.note(text);
  }

  ProgressLine line_;
  std::set<std::string> told_;
  bool first_ = true;
};

void supervise(const Sweep& sweep, const Flags& flags) {
  const int cores = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  const int count = flags.workers > 0 ? flags.workers : cores;
  const int threads = flags.threads > 0 ? flags.threads : std::max(1, cores / count);
  SweepRecord record(sweep);
  if (flags.retry) record.retry_failed();
  record.write_results();  // what a worker that was killed could not write any more
  stop_on_signals(/*second_ends=*/true);
  Display display;
  display.show(record.entries(), count, false);
  Workers workers(flags, count, threads);
  bool stopped = false;
  while (workers.any()) {
    std::this_thread::sleep_for(std::chrono::seconds(1));
    if (stop_requested && !std::exchange(stopped, true)) workers.stop();
    const std::vector<SweepEntry> entries = record.entries();
    workers.look_after(std::count_if(entries.begin(), entries.end(), is_finished));
    display.show(entries, count, !workers.any());
  }
  record.write_results();
  const std::vector<SweepEntry> entries = record.entries();
  const int64_t left = count_of(entries, SweepStatus::waiting) + count_of(entries, SweepStatus::running);
  fmt::print("{} done, {} diverged, {} failed, {} left; results: {}\n", count_of(entries, SweepStatus::done),
             count_of(entries, SweepStatus::diverged), count_of(entries, SweepStatus::failed), left,
             sweep.results.string());
  if (workers.failed())
    throw InputError(
        "sweep", "workers ended with an error or were killed again and again; their messages stand above");
  if (left > 0 && stop_requested) end_by_signal();
  if (left > 0)
    throw InputError("sweep", fmt::format("another process is at work on {} of the runs; when it has ended, "
                                          "start the sweep again",
                                          left));
}

void work(const Flags& flags) {
  prctl(PR_SET_PDEATHSIG, SIGTERM);  // a worker does not outlive its sweep: it saves and ends
  stop_on_signals(/*second_ends=*/false);
  if (getppid() != flags.worker_of) return;
  SweepRecord(sweep_of(flags)).work({.commit = commit(), .stop = &stop_requested});
  if (stop_requested) end_by_signal();
}

void run(const Flags& flags) {
  if (flags.worker_of != 0) return work(flags);
  if (flags.workers < 0)
    throw UsageError("sweep run", fmt::format("--workers must be 0 or more, got {}", flags.workers));
  if (flags.threads < 0)
    throw UsageError("sweep run", fmt::format("--threads must be 0 or more, got {}", flags.threads));
  supervise(sweep_of(flags), flags);
}

void add_file(CLI::App* verb, Flags& flags) {
  verb->add_option("file", flags.file, "The sweep: a TOML file")->required()->type_name("SWEEP.toml");
}

void add_run(CLI::App* sweep, const std::shared_ptr<Flags>& flags) {
  CLI::App* verb = sweep->add_subcommand("run", "Train what is left to do, with several workers");
  verb->footer(
      "A sweep that was stopped or killed goes on with the same command.\n"
      "With --shard i/n a job trains every n-th run only, with a database and results of its own; status and "
      "export\n"
      "take those of all shards that stand beside the sweep's results.\n"
      "Examples:\n"
      "  bridle sweep run experiments/shapes/search_shape.toml --workers 2\n"
      "  bridle sweep run experiments/shapes/search_shape.toml --shard $SLURM_ARRAY_TASK_ID/8\n"
      "Exit codes: 0 nothing is left to do; 1 an error; 2 wrong usage; 130 SIGINT and 143 SIGTERM: runs are\n"
      "left.");
  add_file(verb, *flags);
  verb->add_option("--workers", flags->workers, "Processes that train at the same time [one per core]")
      ->type_name("N");
  verb->add_option("--threads", flags->threads, "Threads of each [the cores, shared]")->type_name("N");
  verb->add_option("--shard", flags->shard, "Of n jobs that share the sweep the i-th, from 1")
      ->type_name("i/n");
  verb->add_flag("--retry", flags->retry, "Let failed runs try again");
  verb->add_option("--worker-of", flags->worker_of, "One worker of this process")->group("");
  verb->callback([flags] { run(*flags); });
}

void add_status(CLI::App* sweep, const std::shared_ptr<Flags>& flags) {
  CLI::App* verb = sweep->add_subcommand("status", "How far it is, and the best run of every group");
  verb->footer("Examples:\n  bridle sweep status experiments/shapes/search_shape.toml");
  add_file(verb, *flags);
  verb->callback([flags] { status(read_sweep(flags->file)); });
}

void add_export(CLI::App* sweep, const std::shared_ptr<Flags>& flags) {
  CLI::App* verb = sweep->add_subcommand("export", "The results as CSV or JSON");
  verb->footer("Examples:\n  bridle sweep export experiments/shapes/search_shape.toml --csv all.csv");
  add_file(verb, *flags);
  verb->add_option("--csv", flags->csv, "Write CSV to this file [standard output]")->type_name("FILE");
  verb->add_option("--json", flags->json, "Write JSON to this file")->type_name("FILE");
  verb->callback([flags] { export_results(read_sweep(flags->file), *flags); });
}

}  // namespace

void add_sweep(CLI::App& app) {
  CLI::App* sweep = app.add_subcommand("sweep", "Train many models from one file, with several workers");
  sweep->footer(
      "Examples:\n"
      "  bridle sweep run experiments/shapes/search_shape.toml --workers 2\n"
      "  bridle sweep status experiments/shapes/search_shape.toml\n"
      "  bridle sweep export experiments/shapes/search_shape.toml --csv all.csv");
  sweep->require_subcommand(1);
  const auto flags = std::make_shared<Flags>();
  add_run(sweep, flags);
  add_status(sweep, flags);
  add_export(sweep, flags);
}

}  // namespace bridle
