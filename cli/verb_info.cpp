// bridle info: what Bridle found on this machine, or what a run is.
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "base/display.h"
#include "bridle/run.h"
#include "certificate_text.h"
#include "kernels/cpu.h"
#include "report/run_metrics.h"
#include "report/sparkline.h"
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

// A bound is rounded up, a time is a clock's, a share a percentage; other numbers have four digits.
std::string text_of(const std::string& key, const nlohmann::ordered_json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_integer()) return shown_count(value.get<int64_t>());
  if (!value.is_number()) return value.dump();
  const auto number = value.get<double>();
  if (key == "lipschitz" || key == "log10_lipschitz") return shown_upper(number);
  if (key == "seconds") return shown_time(number);
  if (key == "validation_accuracy") return shown_percent(number);
  return shown(number);
}

void print_plain(const nlohmann::ordered_json& facts) {
  for (const auto& [key, value] : facts.items()) {
    if (key == "schema") continue;
    fmt::print("{:<22}{}\n", key, text_of(key, value));
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
  const RunMetrics metrics = read_metrics(run.folder / "metrics.jsonl");
  for (const char* key : {"step", "loss", "validation_loss", "validation_accuracy", "lipschitz",
                          "log10_lipschitz", "repairs", "seconds"})
    if (metrics.last.contains(key)) facts[key] = metrics.last.at(key);
  return facts;
}

// The loss from the first line to the last, with a height for each of its values.
void print_loss(const std::filesystem::path& folder) {
  const RunMetrics metrics = read_metrics(folder / "metrics.jsonl");
  constexpr size_t width = 60;
  for (const char* key : {"loss", "validation_loss"}) {
    const auto series = metrics.series.find(key);
    if (series == metrics.series.end() || series->second.points().size() < 2) continue;
    const std::vector<SeriesPoint>& points = series->second.points();
    fmt::print("{:<18}{:>8.4f}  {}  {:.4f}\n", key, points.front().mean, sparkline(points, width),
               points.back().mean);
  }
}

void print_run(const std::string& folder) {
  print_plain(run_facts(folder));
  fmt::print("\n");
  print_loss(folder);
  const std::filesystem::path certificate = std::filesystem::path(folder) / "certificate.json";
  if (std::filesystem::exists(certificate)) print_layers(read_certificate(certificate));
}

}  // namespace

void add_info(CLI::App& app) {
  CLI::App* verb = app.add_subcommand("info", "What Bridle found on this machine, or what a run is");
  verb->footer(
      "Examples:\n  bridle info\n  bridle info runs/quickstart\n  bridle info --json | jq .instruction_set");
  auto json = std::make_shared<bool>(false);
  auto run = std::make_shared<std::string>();
  verb->add_option("run", *run, "A run's folder")->type_name("RUN");
  verb->add_flag("--json", *json, "Print one JSON object");
  verb->callback([json, run] {
    if (*json) return fmt::print("{}\n", (run->empty() ? machine() : run_facts(*run)).dump(2));
    run->empty() ? print_plain(machine()) : print_run(*run);
  });
}

}  // namespace bridle
