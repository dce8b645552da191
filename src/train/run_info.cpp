#include <ATen/Parallel.h>

#include <ctime>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "bridle/run.h"
#include "kernels/cpu.h"

namespace bridle {

void write_run_info(const std::filesystem::path& folder, const RunInfo& info) {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char date[32];
  std::strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%SZ", &parts);
  const nlohmann::ordered_json facts{{"schema", 1},
                                     {"command", info.command},
                                     {"status", info.status},
                                     {"date", date},
                                     {"version", info.version},
                                     {"commit", info.commit},
                                     {"processor", processor_name()},
                                     {"instruction_set", instruction_set_name(instruction_set())},
                                     {"threads", at::get_num_threads()},
                                     {"seed", info.seed}};
  // A command may hold any bytes.
  write_file(folder / "run.json",
             facts.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
}

void update_run_status(const std::filesystem::path& folder, const std::string& status) {
  const std::filesystem::path path = folder / "run.json";
  if (!std::filesystem::exists(path)) return;
  auto facts = nlohmann::ordered_json::parse(read_file(path), nullptr, /*allow_exceptions=*/false);
  if (!facts.is_object()) return;  // somebody else's; the run itself does not depend on it
  facts["status"] = status;
  write_file(path, facts.dump(2) + "\n");
}

}  // namespace bridle
