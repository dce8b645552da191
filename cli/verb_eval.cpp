// bridle eval: validation loss, accuracy and the largest activations of a run.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "base/words.h"
#include "bridle/error.h"
#include "bridle/run.h"
#include "device_flag.h"
#include "progress_line.h"
#include "verbs.h"

namespace bridle {
namespace {

struct Flags {
  std::string run;
  std::string protocol = "whole";
  std::string split = "validation";
  std::string data;
  std::string device = "cpu";
  bool json = false;
};

void print(const Run& run, const Flags& flags, const EvaluationResult& result) {
  if (flags.json) {
    nlohmann::ordered_json layers = nlohmann::ordered_json::array();
    for (const auto& [name, layer] : result.statistics.layers)
      layers.push_back(
          {{"name", name}, {"largest_rms", layer.largest_rms}, {"largest_entry", layer.largest_entry}});
    const nlohmann::ordered_json facts{{"schema", 1},
                                       {"run", run.folder.string()},
                                       {"protocol", flags.protocol},
                                       {"split", flags.split},
                                       {"loss", result.loss},
                                       {"accuracy", result.accuracy},
                                       {"targets", result.targets},
                                       {"layers", layers}};
    return fmt::print("{}\n", facts.dump(2));
  }
  fmt::print("{:<12}{:.6f}\n{:<12}{:.2f} %\n{:<12}{} ({} {}, protocol {})\n\n", "loss", result.loss,
             "accuracy", 100.0 * result.accuracy, "targets", result.targets, run.options.data.name,
             flags.split, flags.protocol);
  fmt::print("{:<32}{:>14}{:>14}\n", "layer", "largest RMS", "largest entry");
  for (const auto& [name, layer] : result.statistics.layers)
    fmt::print("{:<32}{:>14.4f}{:>14.4f}\n", name, layer.largest_rms, layer.largest_entry);
}

void eval(const Flags& flags) {
  Run run = open_run(flags.run, device_named(flags.device, "eval"));
  if (!flags.data.empty()) run.options.data.name = flags.data;
  EvaluateOptions options{.order = {.batch_size = run.options.data.batch_size}, .statistics = true};
  options.order.protocol = parse_word<Protocol, UsageError>(flags.protocol, "eval", "--protocol");
  ProgressLine line;
  const auto source = open_run_split(run, parse_word<Split, UsageError>(flags.split, "eval", "--split"));
  const EvaluationResult result =
      evaluate(*run.model, source, options, [&line](const Progress& p) { line.show(p); });
  line.clear();
  print(run, flags, result);
}

}  // namespace

void add_eval(CLI::App& app) {
  CLI::App* verb = app.add_subcommand("eval", "Loss, accuracy and largest activations of a run");
  verb->footer(
      "Examples:\n  bridle eval runs/quickstart\n  bridle eval runs/quickstart --protocol paper --json");
  auto flags = std::make_shared<Flags>();
  verb->add_option("run", flags->run, "A run's folder")->required();
  verb->add_option("--protocol", flags->protocol,
                   "whole: every target once; paper: windows at 0, 1, 2 …, 20 batches")
      ->capture_default_str();
  verb->add_option("--split", flags->split, "validation, train or held_out")->capture_default_str();
  verb->add_option("--data", flags->data, "Another data set than the run's");
  add_device(*verb, flags->device);
  verb->add_flag("--json", flags->json, "Print one JSON object");
  verb->callback([flags] { eval(*flags); });
}

}  // namespace bridle
