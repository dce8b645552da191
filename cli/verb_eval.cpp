// bridle eval: validation loss, accuracy and the largest activations of a run.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>

#include "base/display.h"
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
  int64_t tokens = 0;
  bool sources = false;
  bool json = false;
};

struct SourceResult {
  std::string name;
  EvaluationResult result;
};

// Of a deep model the layers with the largest entries.
void print_activations(const ActivationStatistics& statistics) {
  constexpr size_t most = 20;
  std::vector<double> entries;
  for (const auto& [name, layer] : statistics.layers) entries.push_back(layer.largest_entry);
  std::sort(entries.begin(), entries.end(), std::greater<>());
  const double least = entries.size() > most ? entries[most - 1] : 0.0;
  fmt::print("\n{:<32}{:>14}{:>14}\n", "layer", "largest RMS", "largest entry");
  for (const auto& [name, layer] : statistics.layers)
    if (layer.largest_entry >= least)
      fmt::print("{:<32}{:>14}{:>14}\n", name, shown(layer.largest_rms), shown(layer.largest_entry));
  if (entries.size() > most)
    fmt::print("and {} layers with smaller entries, which --json prints\n", entries.size() - most);
}

void print(const Run& run, const Flags& flags, const EvaluationResult& result,
           const std::vector<SourceResult>& sources) {
  if (flags.json) {
    nlohmann::ordered_json layers = nlohmann::ordered_json::array();
    for (const auto& [name, layer] : result.statistics.layers)
      layers.push_back(
          {{"name", name}, {"largest_rms", layer.largest_rms}, {"largest_entry", layer.largest_entry}});
    nlohmann::ordered_json facts{{"schema", 1},
                                 {"run", run.folder.string()},
                                 {"protocol", flags.protocol},
                                 {"split", flags.split},
                                 {"loss", result.loss},
                                 {"accuracy", result.accuracy},
                                 {"targets", result.targets},
                                 {"layers", layers}};
    for (const auto& [name, of_source] : sources)
      facts["sources"].push_back({{"name", name},
                                  {"loss", of_source.loss},
                                  {"accuracy", of_source.accuracy},
                                  {"targets", of_source.targets}});
    return fmt::print("{}\n", facts.dump(2));
  }
  fmt::print("{:<10}{:.4f}\n{:<10}{}\n{:<10}{} ({} {}, protocol {})\n", "loss", result.loss, "accuracy",
             shown_percent(result.accuracy), "targets", shown_count(result.targets), run.options.data.name,
             flags.split, flags.protocol);
  if (!sources.empty()) fmt::print("\n{:<16}{:>10}{:>12}{:>12}\n", "source", "loss", "accuracy", "targets");
  for (const auto& [name, of_source] : sources)
    fmt::print("{:<16}{:>10.4f}{:>12}{:>12}\n", name, of_source.loss, shown_percent(of_source.accuracy),
               shown_count(of_source.targets));
  print_activations(result.statistics);
}

// Each source of the data set for itself.
std::vector<SourceResult> evaluate_sources(const Run& run, Split split, EvaluateOptions options,
                                           ProgressLine& line) {
  const DataSet data = open_data_set(run.options.data.name);
  if (data.sources.empty())
    throw InputError("eval",
                     fmt::format("'{}' is not made of several sources; leave out --sources", data.name));
  options.statistics = false;
  std::vector<SourceResult> results;
  for (const TextSource& source : data.sources)
    results.push_back({source.name, evaluate(*run.model, open_run_split(run, split, source.name), options,
                                             [&line](const Progress& p) { line.show(p); })});
  return results;
}

void eval(const Flags& flags) {
  Run run = open_run(flags.run, device_named(flags.device, "eval"));
  if (!flags.data.empty()) run.options.data.name = flags.data;
  if (flags.tokens < 0)
    throw UsageError("eval", fmt::format("--tokens must be 0 or more, got {}", flags.tokens));
  EvaluateOptions options{.order = {.batch_size = run.options.data.batch_size, .targets = flags.tokens},
                          .statistics = true,
                          .window_share = run.window_share};
  options.order.protocol = parse_word<Protocol, UsageError>(flags.protocol, "eval", "--protocol");
  ProgressLine line;
  const Split split = parse_word<Split, UsageError>(flags.split, "eval", "--split");
  std::vector<SourceResult> sources;
  if (flags.sources) sources = evaluate_sources(run, split, options, line);
  const EvaluationResult result =
      evaluate(*run.model, open_run_split(run, split), options, [&line](const Progress& p) { line.show(p); });
  line.clear();
  print(run, flags, result, sources);
}

}  // namespace

void add_eval(CLI::App& app) {
  CLI::App* verb = app.add_subcommand("eval", "Loss, accuracy and largest activations of a run");
  verb->footer(
      "Examples:\n  bridle eval runs/quickstart\n  bridle eval runs/quickstart --protocol paper --json");
  auto flags = std::make_shared<Flags>();
  verb->add_option("run", flags->run, "A run's folder")->required()->type_name("RUN");
  verb->add_option("--protocol", flags->protocol,
                   "whole: every target once; paper: windows at 0, 1, 2 …, 20 batches")
      ->type_name("whole|paper")
      ->capture_default_str();
  verb->add_option("--split", flags->split, "The part of the data")
      ->type_name("validation|train|held_out")
      ->capture_default_str();
  verb->add_option("--data", flags->data, "Another data set than the run's")->type_name("NAME");
  verb->add_option("--tokens", flags->tokens, "Only the first so many targets; 0: all")
      ->type_name("N")
      ->capture_default_str();
  verb->add_flag("--sources", flags->sources, "Also each source of a data set of several for itself");
  add_device(*verb, flags->device);
  verb->add_flag("--json", flags->json, "Print one JSON object");
  verb->callback([flags] { eval(*flags); });
}

}  // namespace bridle
