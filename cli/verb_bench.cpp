// bridle bench: what training costs on this machine, as shares and ratios.
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "base/quantile.h"
#include "kernels/cpu.h"
#include "resources.h"
#include "train/bench_step.h"
#include "train/memory_estimate.h"
#include "train/options.h"
#include "verbs.h"
#include "version.h"

namespace bridle {
namespace {

using Json = nlohmann::ordered_json;

struct Flags {
  std::string recipe;
  std::vector<std::string> set;
  BenchOptions bench;
  bool json = false;
};

// The most memory that this process has had, in bytes.
int64_t peak_memory() {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("VmHWM:")) return 1024 * std::stoll(line.substr(6));
  }
  return 0;
}

// A recipe's keys, resolved, by their full names.
Json settings_of(const RunOptions& options) {
  RunOptions copy = options;
  Json values = Json::object();
  for (const Setting& setting : run_settings(copy)) values[setting.key] = json_of(setting);
  return values;
}

Json breakdown_of(const StepBench& bench, double unit) {
  return {{"data", bench.times.data / unit},
          {"forward", bench.times.forward / unit},
          {"backward", bench.times.backward / unit},
          {"optimizer", bench.times.optimizer / unit},
          {"constraint", bench.times.constraint / unit},
          {"proof", bench.times.proof / unit},
          {"other", bench.other / unit}};
}

Json flop_of(const FlopCount& flop) {
  return {{"forward", flop.forward},
          {"backward", flop.backward},
          {"optimizer", flop.optimizer},
          {"constraint", flop.constraint},
          {"proof", flop.proof}};
}

Json facts_of(const Flags& flags, const StepBench& bench) {
  const double step = median(bench.seconds), peak = median(bench.peak_bfloat16);
  const double total = bench.flop.total();
  const std::string example = bench.options.model.input() == InputKind::tokens ? "tokens" : "examples";
  return {{"schema", 1},
          {"recipe", flags.recipe},
          {"set", flags.set},
          {"version", BRIDLE_VERSION},
          {"commit", commit()},
          {"processor", processor_name()},
          {"instruction_set", instruction_set_name(instruction_set())},
          {"threads", at::get_num_threads()},
          {"precision", word(bench.options.training.precision)},
          {"data", bench.random_data ? "random" : bench.options.data.name},
          {"parameters", bench.parameters},
          {example + "_per_step", bench.examples},
          {"steps", bench.seconds.size()},
          {"median_step_s", step},
          {"min_step_s", quantile(bench.seconds, 0.0)},
          {"max_step_s", quantile(bench.seconds, 1.0)},
          {"spread", (quantile(bench.seconds, 0.75) - quantile(bench.seconds, 0.25)) / step},
          {example + "_per_s", static_cast<double>(bench.examples) / step},
          {"flop_per_step", total},
          {"flop", flop_of(bench.flop)},
          {"bf16_flop_share", total > 0.0 ? bench.flop.bfloat16 / total : 0.0},
          {"achieved_flops", total / step},
          {"peak_flops", peak},
          {"peak_flops_float32", median(bench.peak_float32)},
          {"fraction_of_peak", total / step / peak},
          {"breakdown", breakdown_of(bench, 1.0)},
          {"breakdown_share", breakdown_of(bench, step)},
          {"peak_memory_bytes", peak_memory()},
          {"estimated_memory_bytes", memory_estimate(bench.options, at::get_num_threads()).total()},
          {"settings", settings_of(bench.options)}};
}

void print_plain(const Json& facts) {
  const auto number = [&facts](const char* key) { return facts.at(key).get<double>(); };
  const auto text = [&facts](const char* key) { return facts.at(key).get<std::string>(); };
  const bool tokens = facts.contains("tokens_per_step");
  const auto line = [](const char* what, const std::string& value) { fmt::print("{:<14}{}\n", what, value); };
  line("recipe", fmt::format("{}, {}, {:.3g} million parameters, {} data", text("recipe"), text("precision"),
                             1e-6 * number("parameters"), text("data")));
  line("machine",
       fmt::format("{}, {}, {} threads", text("processor"), text("instruction_set"), number("threads")));
  line("step", fmt::format("{:.1f} ms, from {:.1f} to {:.1f}, spread {:.1f} %", 1e3 * number("median_step_s"),
                           1e3 * number("min_step_s"), 1e3 * number("max_step_s"), 100.0 * number("spread")));
  line(tokens ? "tokens" : "images",
       fmt::format("{:.0f} a step, {:.0f} a second", number(tokens ? "tokens_per_step" : "examples_per_step"),
                   number(tokens ? "tokens_per_s" : "examples_per_s")));
  line("arithmetic", fmt::format("{:.3g} GFLOP a step, {:.3g} GFLOP/s, {:.1f} % of it in bfloat16",
                                 1e-9 * number("flop_per_step"), 1e-9 * number("achieved_flops"),
                                 100.0 * number("bf16_flop_share")));
  line("peak",
       fmt::format("{:.4g} GFLOP/s in bfloat16, {:.4g} in float32; the step reaches {:.1f} % of the first",
                   1e-9 * number("peak_flops"), 1e-9 * number("peak_flops_float32"),
                   100.0 * number("fraction_of_peak")));
  line("memory", fmt::format("{:.0f} MB at most; {:.0f} MB were estimated, without the program itself",
                             1e-6 * number("peak_memory_bytes"), 1e-6 * number("estimated_memory_bytes")));
  fmt::print("\n{:<14}{:>10}{:>10}{:>12}\n", "", "ms", "share", "GFLOP");
  for (const auto& [part, seconds] : facts.at("breakdown").items()) {
    const Json& flop = facts.at("flop");
    fmt::print("{:<14}{:>10.2f}{:>8.1f} %{:>12}\n", part, 1e3 * seconds.get<double>(),
               100.0 * facts.at("breakdown_share").at(part).get<double>(),
               flop.contains(part) ? fmt::format("{:.3f}", 1e-9 * flop.at(part).get<double>()) : "");
  }
}

void step(const Flags& flags) {
  const Json facts =
      facts_of(flags, bench_step(read_recipe(recipe_file(flags.recipe), flags.set), flags.bench));
  if (flags.json) return fmt::print("{}\n", facts.dump(2));
  print_plain(facts);
}

void add_step(CLI::App* bench) {
  CLI::App* verb =
      bench->add_subcommand("step", "A recipe's training step: its time, parts and share of the peak");
  verb->footer(
      "Trains in memory for --warmup and --steps steps; nothing is written. Parts are medians over the "
      "steps. Norms\n"
      "are proved every constraint.prove_every steps: the proofs' mean over whole rounds of so many steps is "
      "counted\n"
      "to each step; with fewer --steps than that, one proof is timed by itself. After each step the "
      "machine's peak\n"
      "is measured. Without the recipe's data set the batches are random. benchmarks/README.md explains "
      "every figure.\n"
      "Examples:\n"
      "  bridle bench step recipes/shakespeare_soft_cap.toml\n"
      "  bridle bench step recipes/shakespeare_soft_cap.toml --set training.precision=bfloat16 --steps 20\n"
      "  bridle bench step recipes/cifar_mlp_soft_cap.toml --json | jq .breakdown_share");
  auto flags = std::make_shared<Flags>();
  verb->add_option("recipe", flags->recipe, "A TOML file, or the name of a recipe that comes with Bridle")
      ->required()
      ->type_name("RECIPE");
  verb->add_option("--set", flags->set, "A key over the recipe; may be repeated")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  verb->add_option("--steps", flags->bench.steps, "Steps that are timed")
      ->type_name("N")
      ->capture_default_str();
  verb->add_option("--warmup", flags->bench.warmup, "Steps before them")
      ->type_name("N")
      ->capture_default_str();
  verb->add_flag("--json", flags->json, "Print one JSON object");
  verb->callback([flags] { step(*flags); });
}

}  // namespace

void add_bench(CLI::App& app) {
  CLI::App* verb = app.add_subcommand("bench", "Measure what training costs on this machine");
  verb->require_subcommand(1);
  verb->footer("Examples:\n  bridle bench step recipes/quickstart.toml\n  bridle bench step --help");
  add_step(verb);
}

}  // namespace bridle
