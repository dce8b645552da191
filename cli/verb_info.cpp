// bridle info: what Bridle found on this machine, or what a run is.
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <fstream>
#include <nlohmann/json.hpp>

#include "bridle/run.h"
#include "kernels/cpu.h"
#include "verbs.h"

namespace bridle {
namespace {

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

nlohmann::ordered_json run_facts(const std::string& folder) {
  const Run run = open_run(folder);
  int64_t parameters = 0;
  for (const Param& param : run.model->params()) parameters += param.tensor.numel();
  nlohmann::ordered_json facts{{"schema", 1},
                               {"run", folder},
                               {"data", run.options.data.name},
                               {"model", word(run.options.model.kind)},
                               {"parameters", parameters},
                               {"optimizer", word(run.options.optimizer.method)},
                               {"constraint", run.options.constraint.options.method},
                               {"steps", run.options.training.steps}};
  const ConstraintSettings& constraint = run.options.constraint;
  if (constraint.lipschitz > 0.0)
    facts["budget"] = constraint.lipschitz;  // sigma_max plays no part then
  else
    facts["sigma_max"] = constraint.sigma_max;
  std::ifstream metrics(run.folder / "metrics.jsonl");
  for (std::string line; std::getline(metrics, line);) {  // the last word on everything that was measured
    const auto entry = nlohmann::ordered_json::parse(line, nullptr, /*allow_exceptions=*/false);
    for (const char* key : {"step", "loss", "validation_loss", "validation_accuracy", "lipschitz",
                            "log10_lipschitz", "repairs", "seconds"}) {
      if (entry.is_object() && entry.contains(key)) facts[key] = entry[key];
    }
  }
  return facts;
}

}  // namespace

void add_info(CLI::App& app) {
  CLI::App* verb = app.add_subcommand("info", "What Bridle found on this machine, or what a run is");
  verb->footer(
      "Examples:\n  bridle info\n  bridle info runs/quickstart\n  bridle info --json | jq .instruction_set");
  auto json = std::make_shared<bool>(false);
  auto run = std::make_shared<std::string>();
  verb->add_option("run", *run, "A run's folder");
  verb->add_flag("--json", *json, "Print one JSON object");
  verb->callback([json, run] {
    const auto facts = run->empty() ? machine() : run_facts(*run);
    if (*json) {
      fmt::print("{}\n", facts.dump(2));
    } else {
      print_plain(facts);
    }
  });
}

}  // namespace bridle
