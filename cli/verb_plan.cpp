// bridle plan: what training with several ranks will take, before anything is started.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "base/display.h"
#include "data/dataset.h"
#include "resources.h"
#include "train/options.h"
#include "train/random_source.h"
#include "train/training_plan.h"
#include "verbs.h"

namespace bridle {
namespace {

using Json = nlohmann::ordered_json;

struct Flags {
  std::string recipe;
  std::vector<std::string> set;
  PlanOptions plan;
  bool json = false;
};

Json memory_of(const MemoryEstimate& memory) {
  return {{"weights", memory.weights},         {"gradients", memory.gradients},
          {"optimizer", memory.optimizer},     {"packed", memory.packed},
          {"activations", memory.activations}, {"batches", memory.batches},
          {"exchange", memory.exchange},       {"total", memory.total()}};
}

Json facts_of(const Flags& flags, const TrainingPlan& plan) {
  return {{"schema", 1},
          {"recipe", flags.recipe},
          {"set", flags.set},
          {"ranks", flags.plan.ranks},
          {"flops", flags.plan.flops},
          {"gbit", flags.plan.ranks > 1 ? Json(flags.plan.gbit) : nullptr},
          {"parameters", plan.parameters},
          {"slices", plan.slices},
          {"examples_per_step", plan.examples},
          {"flop_per_step", plan.flop},
          {"pass_flop_per_rank", plan.pass_flop},
          {"owner_flop_per_rank", plan.owner_flop},
          {"gradient_bytes_per_rank", plan.gradient_bytes},
          {"weight_bytes_per_rank", plan.weight_bytes},
          {"memory_bytes_per_rank", memory_of(plan.memory)},
          {"compute_seconds_per_step", plan.compute_seconds},
          {"exchange_seconds_per_step", plan.exchange_seconds},
          {"seconds_per_step", plan.step_seconds()},
          {"steps", plan.steps},
          {"seconds", plan.run_seconds()}};
}

void print_plain(const Flags& flags, const TrainingPlan& plan) {
  const auto line = [](const char* what, const std::string& value) { fmt::print("{:<14}{}\n", what, value); };
  line("model", fmt::format("{} parameters", shown_count(plan.parameters)));
  line("step", fmt::format("{} examples in {} slices, {} GFLOP", shown_count(plan.examples), plan.slices,
                           shown(1e-9 * plan.flop)));
  line("each rank", fmt::format("{} GFLOP for its slices, up to {} for its weights",
                                shown(1e-9 * plan.pass_flop), shown(1e-9 * plan.owner_flop)));
  line("network", fmt::format("{} of gradients and {} of weights per rank and step",
                              shown_bytes(plan.gradient_bytes), shown_bytes(plan.weight_bytes)));
  line("memory", fmt::format("{} per rank, without the program itself", shown_bytes(plan.memory.total())));
  line("step takes", fmt::format("{} s: {} s of arithmetic at {} GFLOP/s, {} s of exchange",
                                 shown(plan.step_seconds()), shown(plan.compute_seconds),
                                 shown(1e-9 * flags.plan.flops), shown(plan.exchange_seconds)));
  line("run takes", fmt::format("{} for {} steps, without evaluation", shown_time(plan.run_seconds()),
                                shown_count(plan.steps)));
}

void plan(const Flags& flags) {
  const RunOptions options = read_recipe(recipe_file(flags.recipe), flags.set);
  RunOptions random = options;
  random.data.standardize = false;  // needs the images
  const bool here = data_present(options.data.name);
  const RunOptions complete =
      here ? resolved(options, open_data_set(options.data.name)) : resolved(random, random_data_set(random));
  const TrainingPlan result = plan_training(complete, flags.plan);
  if (flags.json) return fmt::print("{}\n", facts_of(flags, result).dump(2));
  print_plain(flags, result);
}

}  // namespace

void add_plan(CLI::App& app) {
  CLI::App* verb =
      app.add_subcommand("plan", "What training with several ranks takes: arithmetic, bytes, memory, time");
  verb->footer(
      "Counted from the recipe's shapes; nothing is trained. --flops is what `bridle bench step` reaches on "
      "one\n"
      "rank (achieved_flops). docs/how-to/many-processes.md says how.\n"
      "Examples:\n"
      "  bridle plan recipes/nanogpt_soft_cap.toml --ranks 4 --flops 300e9 --gbit 10\n"
      "  bridle plan recipes/quickstart.toml --set training.slices=2 --ranks 2 --flops 100e9 --gbit 1 "
      "--json");
  auto flags = std::make_shared<Flags>();
  verb->add_option("recipe", flags->recipe, "A TOML file, or the name of a recipe that comes with Bridle")
      ->required()
      ->type_name("RECIPE");
  verb->add_option("--set", flags->set, "A key over the recipe; may be repeated")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  verb->add_option("--ranks", flags->plan.ranks, "Processes that share the slices of each step")
      ->type_name("N")
      ->capture_default_str();
  verb->add_option("--flops", flags->plan.flops, "Floating-point operations per second of one rank")
      ->required()
      ->type_name("R");
  verb->add_option("--gbit", flags->plan.gbit, "Gbit per second of each rank's link, each way")
      ->type_name("B");
  verb->add_option("--threads", flags->plan.threads, "Threads of each rank, for its memory")
      ->type_name("N")
      ->capture_default_str();
  verb->add_flag("--json", flags->json, "Print one JSON object");
  verb->callback([flags] { plan(*flags); });
}

}  // namespace bridle
