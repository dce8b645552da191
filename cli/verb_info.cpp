// bridle info: what Bridle found on this machine.
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <fstream>
#include <nlohmann/json.hpp>

#include "kernels/cpu.h"
#include "verbs.h"

namespace bridle {
namespace {

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(": ") + 2);
  }
  return "unknown";
}

nlohmann::ordered_json machine() {
  const RuntimeReport& report = runtime_report();
  return {{"schema", 1},
          {"version", BRIDLE_VERSION},
          {"processor", processor_name()},
          {"instruction_set", instruction_set_name(instruction_set())},
          {"threads", at::get_num_threads()},
          {"blas_core", report.blas_core},
          {"blas_core_corrected", report.blas_core_corrected},
          {"dnn_without_amx", report.dnn_without_amx}};
}

void print_plain(const nlohmann::ordered_json& facts) {
  for (const auto& [key, value] : facts.items()) {
    if (key == "schema") continue;
    fmt::print("{:<22}{}\n", key, value.is_string() ? value.get<std::string>() : value.dump());
  }
}

}  // namespace

void add_info(CLI::App& app) {
  CLI::App* verb = app.add_subcommand("info", "What Bridle found on this machine");
  verb->footer("Examples:\n  bridle info\n  bridle info --json | jq .instruction_set");
  auto json = std::make_shared<bool>(false);
  verb->add_flag("--json", *json, "Print one JSON object");
  verb->callback([json] {
    if (*json) {
      fmt::print("{}\n", machine().dump(2));
    } else {
      print_plain(machine());
    }
  });
}

}  // namespace bridle
