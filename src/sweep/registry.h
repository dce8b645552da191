// The sweep's database: which run is whose. Every change is one transaction, so that a process can end at any instruction; a run
// belongs to a process by its number and its starting time, so that a dead owner is known at once and never confused.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "bridle/sweep.h"

namespace bridle {

using Cells = std::map<std::string, std::string>;

inline const std::filesystem::path kInMemory = ":memory:";  // a database that nobody else sees

class Registry {
 public:
  // Opens or makes it, for one sweep's file. Throws InputError where it is another's or no database, or the disk is full.
  Registry(const std::filesystem::path& path, const std::string& sweep_file);
  ~Registry();
  Registry(const Registry&) = delete;
  Registry& operator=(const Registry&) = delete;

  // The runs of a file, in their order; those of older versions stay, but nobody wants them. Results that are known from elsewhere are
  // taken where there is none yet.
  void set_runs(const std::vector<SweepRun>& runs, const std::vector<Cells>& known);

  // Of the runs that the caller knows one whose owner has died, or else the next that waits; it is the caller's from then on. One that
  // has lost three owners without getting farther fails.
  std::optional<std::string> claim(const std::string& owner, const std::set<std::string>& known);
  void set_step(const std::string& key, int64_t step);
  void release(const std::string& key);  // it waits again
  void finish(const std::string& key, SweepStatus status, const Cells& cells);
  void retry_failed();

  std::vector<SweepEntry> entries() const;

 private:
  struct Database;
  std::unique_ptr<Database> database_;
};

// A process as an owner; empty where it has ended.
std::string process_named(const std::string& number);
std::string this_process();
bool is_alive(const std::string& owner);  // on this machine

}  // namespace bridle
