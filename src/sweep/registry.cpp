// See registry.h.
#include "sweep/registry.h"

#include <fmt/format.h>
#include <sqlite3.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "base/files.h"
#include "bridle/error.h"

namespace bridle {
namespace {

constexpr int kMostOwners = 3;

// A process by its number and when it began, in ticks since the machine started; empty where there is none.
std::string process_named(const std::string& number) {
  std::string text;
  try {
    text = read_file("/proc/" + number + "/stat");
  } catch (const InputError&) {
    return {};
  }
  std::istringstream fields(text.substr(text.rfind(')') + 1));  // a program's name may hold anything
  std::string field;
  for (int i = 3; i <= 22; ++i) fields >> field;
  return number + ":" + field;
}

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
        "DEFAULT 0, "
        "varied TEXT DEFAULT '{}', cells TEXT DEFAULT '{}')");
  }
  ~Database() { sqlite3_close(handle); }
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  [[noreturn]] void fail() const {
    throw InputError("sweep", fmt::format("{}: {}; if it is no sweep's database, name another folder",
                                          path.string(), sqlite3_errmsg(handle)));
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

Registry::Registry(const std::filesystem::path& path) {
  make_folder(path.parent_path());
  database_ = std::make_unique<Database>(path);
}

Registry::~Registry() = default;

void Registry::set_runs(const std::vector<SweepRun>& runs, const std::vector<Cells>& known) {
  database_->transaction([&] {
    database_->run("UPDATE runs SET wanted = 0");
    for (size_t i = 0; i < runs.size(); ++i) {
      const SweepRun& run = runs[i];
      const std::string varied = nlohmann::ordered_json(run.varied).dump();
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
      const std::string json = nlohmann::ordered_json(cells).dump();
      database_->run(
          "INSERT OR IGNORE INTO runs (key, place, name, steps, wanted) VALUES (?1, 1000000000, ?2, 0, 0)",
          {cell("key"), cell("group")});
      database_->run(
          "UPDATE runs SET status = ?2, cells = ?3 WHERE key = ?1 AND status NOT IN ('done', 'diverged', "
          "'failed')",
          {cell("key"), cell("status"), json});
    }
  });
}

std::optional<std::string> Registry::claim(const std::string& owner) {
  std::optional<std::string> claimed;
  database_->transaction([&] {
    for (const auto& row : database_->run(
             "SELECT key, owner, owners FROM runs WHERE status = 'running' AND wanted ORDER BY place")) {
      if (is_alive(row[1])) continue;
      if (std::stoi(row[2]) < kMostOwners) {
        claimed = row[0];
        break;
      }
      database_->run(
          "UPDATE runs SET status = 'failed', owner = '', cells = ?2 WHERE key = ?1",
          {row[0],
           nlohmann::ordered_json(Cells{{"error", fmt::format("{} workers died over it", row[2])}}).dump()});
    }
    if (!claimed) {
      const auto rows =
          database_->run("SELECT key FROM runs WHERE status = 'waiting' AND wanted ORDER BY place LIMIT 1");
      if (!rows.empty()) claimed = rows[0][0];
    }
    if (claimed)
      database_->run("UPDATE runs SET status = 'running', owner = ?2, owners = owners + 1 WHERE key = ?1",
                     {*claimed, owner});
  });
  return claimed;
}

void Registry::set_step(const std::string& key, int64_t step) {
  database_->run("UPDATE runs SET step = CAST(?2 AS INTEGER) WHERE key = ?1", {key, std::to_string(step)});
}

void Registry::release(const std::string& key) {
  database_->run(
      "UPDATE runs SET status = 'waiting', owner = '', owners = owners - 1 WHERE key = ?1 AND status = "
      "'running'",
      {key});
}

void Registry::finish(const std::string& key, SweepStatus status, const Cells& cells) {
  database_->run("UPDATE runs SET status = ?2, owner = '', cells = ?3 WHERE key = ?1",
                 {key, sweep_status_name(status), nlohmann::ordered_json(cells).dump()});
}

void Registry::retry_failed() {
  database_->run("UPDATE runs SET status = 'waiting', owners = 0, cells = '{}' WHERE status = 'failed'");
}

std::vector<SweepEntry> Registry::entries() const {
  std::vector<SweepEntry> entries;
  for (const auto& row : database_->run("SELECT key, name, status, step, steps, wanted, varied, cells, owner "
                                        "FROM runs ORDER BY place, key")) {
    SweepEntry entry{.key = row[0],
                     .group = row[1],
                     .status = status_named(row[2]),
                     .step = std::stoll(row[3]),
                     .steps = std::stoll(row[4]),
                     .wanted = row[5] == "1",
                     .cells = nlohmann::json::parse(row[7]).get<Cells>()};
    // A run whose worker has died waits, whatever it says.
    if (entry.status == SweepStatus::running && !is_alive(row[8])) entry.status = SweepStatus::waiting;
    entry.cells.merge(nlohmann::json::parse(row[6]).get<Cells>());
    entry.cells["key"] = entry.key;
    entry.cells["group"] = entry.group;
    entry.cells["status"] = sweep_status_name(entry.status);
    entries.push_back(std::move(entry));
  }
  return entries;
}

}  // namespace bridle
