// See registry.h.
#include "sweep/registry.h"

#include <fmt/format.h>
#include <sqlite3.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/files.h"
#include "bridle/error.h"

namespace bridle {
namespace {

constexpr int kMostOwners = 3;

std::string text_of(const char* path) {  // of a file that has no size
  std::ifstream file(path);
  std::string text;
  std::getline(file, text, '\0');
  return text;
}

// A JSON text of cells; what is not UTF-8 in a message is replaced.
std::string json_of(const Cells& cells) {
  return nlohmann::ordered_json(cells).dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

int64_t number_of(const std::string& text) { return std::strtoll(text.c_str(), nullptr, 10); }

SweepStatus status_named(const std::string& name) {
  for (const auto status :
       {SweepStatus::waiting, SweepStatus::running, SweepStatus::done, SweepStatus::diverged}) {
    if (name == sweep_status_name(status)) return status;
  }
  return SweepStatus::failed;
}

}  // namespace

const char* sweep_status_name(SweepStatus status) {
  constexpr const char* names[] = {"waiting", "running", "done", "diverged", "failed"};
  return names[static_cast<int>(status)];
}

// By its number, when it began in ticks since the machine's start, and which start that was.
std::string process_named(const std::string& number) {
  const std::string text = text_of(("/proc/" + number + "/stat").c_str());
  if (text.empty()) return {};
  std::istringstream fields(text.substr(text.rfind(')') + 1));  // a program's name may hold anything
  std::string state, began, threads;
  fields >> state;
  for (int i = 4; i <= 22; ++i) fields >> (i == 20 ? threads : began);
  // It has ended, and nobody has looked. While threads are left, a process that was killed still holds its files and locks.
  if (state == "X" || (state == "Z" && threads <= "1")) return {};
  std::string machine = text_of("/proc/sys/kernel/random/boot_id");
  machine.resize(std::min<size_t>(machine.size(), 8));
  return fmt::format("{}:{}:{}", number, began, machine);
}

std::string this_process() { return process_named(std::to_string(getpid())); }

bool is_alive(const std::string& owner) {
  return !owner.empty() && process_named(owner.substr(0, owner.find(':'))) == owner;
}

struct Registry::Database {
  explicit Database(std::filesystem::path where) : path(std::move(where)) {
    if (sqlite3_open(path.c_str(), &handle) != SQLITE_OK) fail();
    sqlite3_busy_timeout(handle, 60'000);
    run("CREATE TABLE IF NOT EXISTS runs (key TEXT PRIMARY KEY, place INTEGER, name TEXT, steps INTEGER, "
        "wanted INTEGER, "
        "status TEXT DEFAULT 'waiting', owner TEXT DEFAULT '', owners INTEGER DEFAULT 0, step INTEGER "
        "DEFAULT 0, finishes INTEGER DEFAULT 0, "
        "varied TEXT DEFAULT '{}', cells TEXT DEFAULT '{}')");
    run("CREATE TABLE IF NOT EXISTS sweep (file TEXT)");
  }
  ~Database() { sqlite3_close(handle); }
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  [[noreturn]] void fail() const {
    const int code = sqlite3_errcode(handle);
    const char* what =
        code == SQLITE_BUSY || code == SQLITE_LOCKED ? "is held by another process; try again"
        : code == SQLITE_FULL                        ? "cannot grow: the disk is full; make room on it"
        : code == SQLITE_READONLY || code == SQLITE_PERM
            ? "may not be written; choose a folder that you may write to"
        : code == SQLITE_CANTOPEN ? "cannot be opened; choose a folder that you may write to"
        : code == SQLITE_IOERR    ? "cannot be read or written; check the disk"
        : code == SQLITE_ERROR
            ? "has other tables than expected, an older Bridle may have made it; its results are in the "
              "CSV file, so it can be removed"
            : "is damaged, or not a sweep's database; name another folder, or remove it";
    throw InputError("sweep", fmt::format("{} {}", path.string(), what));
  }

  Cells cells_of(const std::string& text) const {
    const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
    const bool good = json.is_object() && std::all_of(json.begin(), json.end(),
                                                      [](const auto& cell) { return cell.is_string(); });
    if (!good)
      throw InputError("sweep",
                       fmt::format("{} is damaged: a run's cells are '{}'; remove it, the results are "
                                   "in the CSV file",
                                   path.string(), text.substr(0, 80)));
    return json.get<Cells>();
  }

  using Row = std::vector<std::string>;
  std::vector<Row> run(const char* sql, const std::vector<std::string>& values = {}) const {
    sqlite3_stmt* statement = nullptr;
    if (sqlite3_prepare_v2(handle, sql, -1, &statement, nullptr) != SQLITE_OK) fail();
    const std::unique_ptr<sqlite3_stmt, int (*)(sqlite3_stmt*)> guard(statement, sqlite3_finalize);
    for (size_t i = 0; i < values.size(); ++i)
      sqlite3_bind_text(statement, static_cast<int>(i) + 1, values[i].c_str(), -1, SQLITE_TRANSIENT);
    std::vector<Row> rows;
    int state;
    while ((state = sqlite3_step(statement)) == SQLITE_ROW) {
      Row& row = rows.emplace_back();
      for (int i = 0; i < sqlite3_column_count(statement); ++i) {
        const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(statement, i));
        row.emplace_back(text == nullptr ? "" : text);
      }
    }
    if (state != SQLITE_DONE) fail();
    return rows;
  }

  // Nobody else writes in between; nothing is changed where it throws.
  template <class Change>
  void transaction(const Change& change) const {
    run("BEGIN IMMEDIATE");
    try {
      change();
      run("COMMIT");
    } catch (...) {
      sqlite3_exec(handle, "ROLLBACK", nullptr, nullptr, nullptr);
      throw;
    }
  }

  std::filesystem::path path;
  sqlite3* handle = nullptr;
};

Registry::Registry(const std::filesystem::path& path, const std::string& sweep_file) {
  if (path != kInMemory) make_folder(path.parent_path());
  database_ = std::make_unique<Database>(path);
  database_->transaction([&] {
    const auto rows = database_->run("SELECT file FROM sweep");
    if (rows.empty()) database_->run("INSERT INTO sweep VALUES (?1)", {sweep_file});
    if (!rows.empty() && rows[0][0] != sweep_file)
      throw InputError("sweep", fmt::format("{} belongs to {}: give {} another name or folder", path.string(),
                                            rows[0][0], sweep_file));
  });
}

Registry::~Registry() = default;

void Registry::set_runs(const std::vector<SweepRun>& runs, const std::vector<Cells>& known) {
  database_->transaction([&] {
    database_->run("UPDATE runs SET wanted = 0");
    for (size_t i = 0; i < runs.size(); ++i) {
      const SweepRun& run = runs[i];
      const std::string varied = json_of(run.varied);
      database_->run(
          "INSERT INTO runs (key, place, name, steps, wanted, varied) VALUES (?1, CAST(?2 AS INTEGER), ?3, "
          "CAST(?4 AS INTEGER), 1, ?5) "
          "ON CONFLICT (key) DO UPDATE SET place = excluded.place, steps = excluded.steps, wanted = 1, "
          "varied = excluded.varied",
          {run.key, std::to_string(i), run.group, std::to_string(run.steps), varied});
    }
    for (const Cells& cells : known) {
      const auto cell = [&cells](const char* name) {
        return cells.contains(name) ? cells.at(name) : std::string();
      };
      if (cell("key").empty() || (cell("status") != "done" && cell("status") != "diverged")) continue;
      const std::string json = json_of(cells);
      database_->run(
          "INSERT OR IGNORE INTO runs (key, place, name, steps, wanted) VALUES (?1, 1000000000, ?2, 0, 0)",
          {cell("key"), cell("group")});
      database_->run(
          "UPDATE runs SET status = ?2, cells = ?3 WHERE key = ?1 AND status NOT IN ('done', 'diverged')",
          {cell("key"), cell("status"), json});
    }
  });
}

std::optional<std::string> Registry::claim(const std::string& owner, const std::set<std::string>& known) {
  std::optional<std::string> claimed;
  database_->transaction([&] {
    std::optional<std::string> waiting;
    for (const auto& row :
         database_->run("SELECT key, owner, owners, status FROM runs WHERE status IN ('running', 'waiting') "
                        "ORDER BY place")) {
      const bool free = row[3] == "waiting";
      if (claimed || !known.contains(row[0]) || (!free && is_alive(row[1]))) continue;
      if (free && !waiting) waiting = row[0];
      if (free) continue;
      if (number_of(row[2]) < kMostOwners) claimed = row[0];
      if (number_of(row[2]) >= kMostOwners)
        database_->run("UPDATE runs SET status = 'failed', owner = '', cells = ?2 WHERE key = ?1",
                       {row[0], json_of({{"error", fmt::format("{} workers died over it", row[2])}})});
    }
    if (!claimed) claimed = waiting;
    if (claimed)
      database_->run("UPDATE runs SET status = 'running', owner = ?2, owners = owners + 1 WHERE key = ?1",
                     {*claimed, owner});
  });
  return claimed;
}

// A run that gets farther than ever before may lose owners anew.
void Registry::set_step(const std::string& key, int64_t step) {
  database_->run(
      "UPDATE runs SET owners = 1, step = CAST(?2 AS INTEGER) WHERE key = ?1 AND step < CAST(?2 AS INTEGER) "
      "AND status = 'running'",
      {key, std::to_string(step)});
}

void Registry::release(const std::string& key) {
  database_->run(
      "UPDATE runs SET status = 'waiting', owner = '', owners = owners - 1 WHERE key = ?1 AND status = "
      "'running'",
      {key});
}

void Registry::finish(const std::string& key, SweepStatus status, const Cells& cells) {
  database_->run(
      "UPDATE runs SET status = ?2, owner = '', cells = ?3, finishes = finishes + 1 WHERE key = ?1",
      {key, sweep_status_name(status), json_of(cells)});
}

void Registry::retry_failed() {
  database_->run(
      "UPDATE runs SET status = 'waiting', owners = 0, step = 0, cells = '{}' WHERE status = 'failed'");
}

std::vector<SweepEntry> Registry::entries() const {
  std::vector<SweepEntry> entries;
  for (const auto& row : database_->run("SELECT key, name, status, step, steps, wanted, varied, cells, owner "
                                        "FROM runs ORDER BY place, key")) {
    SweepEntry entry{.key = row[0],
                     .group = row[1],
                     .status = status_named(row[2]),
                     .step = number_of(row[3]),
                     .steps = number_of(row[4]),
                     .wanted = row[5] == "1",
                     .cells = database_->cells_of(row[7])};
    // A run whose worker has died waits, whatever it says.
    if (entry.status == SweepStatus::running && !is_alive(row[8])) entry.status = SweepStatus::waiting;
    entry.cells.merge(database_->cells_of(row[6]));
    entry.cells["key"] = entry.key;
    entry.cells["group"] = entry.group;
    entry.cells["status"] = sweep_status_name(entry.status);
    entries.push_back(std::move(entry));
  }
  return entries;
}

}  // namespace bridle
