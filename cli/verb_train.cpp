// bridle train: a recipe becomes a run.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/display.h"
#include "bound_text.h"
#include "bridle/error.h"
#include "bridle/run.h"
#include "bridle/train.h"
#include "device_flag.h"
#include "progress_line.h"
#include "resources.h"
#include "stop_signals.h"
#include "verbs.h"
#include "version.h"

namespace bridle {
namespace {

namespace fs = std::filesystem;

struct Flags {
  std::string recipe;
  std::vector<std::string> set;
  std::string out;
  std::string resume;
  std::optional<double> lipschitz;
  std::optional<int64_t> steps;
  std::optional<double> lr;
  std::optional<uint64_t> seed;
  std::string device = "cpu";
  bool keys = false;
  bool json = false;
};

// runs/NAME of the recipe's name; runs/NAME-2 and so on where that is taken.
fs::path free_folder(const fs::path& recipe) {
  const fs::path first = fs::path("runs") / recipe.stem();
  fs::path folder = first;
  for (int i = 2; fs::exists(folder); ++i) folder = first.string() + fmt::format("-{}", i);
  return folder;
}

// With --resume auto always the same one, so that the command can be repeated.
fs::path folder_of(const Flags& flags) {
  if (!flags.resume.empty() && flags.resume != "auto") return flags.resume;
  if (!flags.out.empty()) return flags.out;
  return flags.resume.empty() ? free_folder(flags.recipe) : fs::path("runs") / fs::path(flags.recipe).stem();
}

// What --set and the flags that stand for a key change, the flags last.
std::vector<std::string> settings_of(const Flags& flags) {
  std::vector<std::string> set = flags.set;
  if (flags.steps) set.push_back(fmt::format("training.steps={}", *flags.steps));
  if (flags.lr) set.push_back(fmt::format("optimizer.lr={}", *flags.lr));
  if (flags.seed) set.push_back(fmt::format("training.seed={}", *flags.seed));
  if (flags.lipschitz) set.push_back(fmt::format("constraint.lipschitz={}", *flags.lipschitz));
  return set;
}

void check_usage(const Flags& flags) {
  device_named(flags.device, "train");  // before anything is made
  const bool named = !flags.resume.empty() && flags.resume != "auto";
  if (flags.recipe.empty() && !named && (flags.resume.empty() || flags.out.empty()))
    throw UsageError("train", "a recipe must be named, such as quickstart or my.toml, or --resume DIR");
  if (named && !flags.out.empty())
    throw UsageError(
        "train",
        fmt::format("--resume {} must come without --out: a resumed run stays where it is", flags.resume));
  if (flags.lipschitz && !(*flags.lipschitz > 0.0 && std::isfinite(*flags.lipschitz)))
    throw InputError("train", fmt::format("--lipschitz must be positive, got {}", *flags.lipschitz));
}

// A new run, or the one that is there; a recipe and settings must then be those that it has.
std::unique_ptr<Trainer> open_trainer(const Flags& flags, const fs::path& folder, bool resumed,
                                      const TrainListener& listener) {
  const std::vector<std::string> set = settings_of(flags);
  RunOptions options = resumed && flags.recipe.empty() ? read_config(folder / "config.toml", set)
                                                       : read_recipe(recipe_file(flags.recipe), set);
  options.device = device_named(flags.device, "train");
  if (!resumed) return std::make_unique<Trainer>(options, folder, listener);
  return Trainer::resume(folder, listener, options);
}

class Terminal {
 public:
  TrainListener listener() {
    return {[this](const TrainProgress& p) { show(p); },
            [this](const std::string& text) { line_.note(text); }};
  }

  void clear() { line_.clear(); }

 private:
  void show(const TrainProgress& p) {
    line_.show_text(fmt::format("step {}/{}  loss {:.4f}  accuracy {:.1f} %  {:.0f}/s", p.step, p.steps,
                                p.loss, 100.0 * p.accuracy, p.examples_per_second),
                    p.seconds_left, p.step == p.steps);
  }
  ProgressLine line_;
};

void print_summary(const TrainSummary& s, const fs::path& folder, bool json) {
  if (json) {
    const nlohmann::ordered_json facts{
        {"schema", 1},
        {"run", folder.string()},
        {"step", s.step},
        {"finished", s.finished},
        {"train_loss", s.train_loss},
        {"validation_loss", s.finished ? nlohmann::ordered_json(s.validation_loss) : nullptr},
        {"validation_accuracy", s.finished ? nlohmann::ordered_json(s.validation_accuracy) : nullptr},
        {"log10_lipschitz",
         s.finished && s.bound ? nlohmann::ordered_json(s.bound->lipschitz.log10) : nullptr},
        {"budget", s.budget > 0.0 ? nlohmann::ordered_json(s.budget) : nullptr},
        {"budget_formula",
         s.budget > 0.0 ? nlohmann::ordered_json(s.papers_budget ? "paper" : "sound") : nullptr},
        {"bound_of_caps", s.budget > 0.0 ? nlohmann::ordered_json(s.bound_of_caps.to_double()) : nullptr},
        {"domain_radius", s.bound ? nlohmann::ordered_json(s.bound->domain_radius) : nullptr},
        {"loss_before_seal", s.sealed ? nlohmann::ordered_json(s.loss_before_seal) : nullptr},
        {"repairs", s.repairs},
        {"seconds", s.seconds}};
    return fmt::print("{}\n", facts.dump(2));
  }
  if (!s.finished) {
    fmt::print("stopped at step {}, saved; go on with: bridle train --resume {}\n", s.step, folder.string());
    return;
  }
  const auto line = [](const char* what, const std::string& value) { fmt::print("{:<18}{}\n", what, value); };
  line("run", folder.string());
  line("steps", fmt::format("{} in {}", shown_count(s.step), shown_time(s.seconds)));
  line("validation loss",
       fmt::format("{:.4f}, accuracy {}", s.validation_loss, shown_percent(s.validation_accuracy)));
  line("repairs", shown_count(s.repairs));
  if (s.budget > 0.0)
    line("budget", fmt::format("{}; {}, {}, was kept and proved at every step", shown(s.budget),
                               s.papers_budget ? "the paper's formula for the caps, which is no bound"
                                               : "the caps' bound",
                               text_of(s.bound_of_caps)));
  if (s.sealed)
    line("sealed", fmt::format("loss {:.4f} before, {:.4f} after", s.loss_before_seal, s.validation_loss));
  if (s.bound)
    line("Lipschitz bound", fmt::format("{} (RMS → RMS, inputs of norm up to {}; norms verified)",
                                        text_of(s.bound->lipschitz), shown_lower(s.bound->domain_radius)));
  else
    line("Lipschitz bound", "none: this model has no finite bound");
}

std::string command_of(const Flags& flags) {
  std::string command = "bridle train " + flags.recipe;
  if (flags.lipschitz) command += fmt::format(" --lipschitz {}", *flags.lipschitz);
  for (const std::string& set : flags.set) command += " --set " + set;
  if (flags.steps) command += fmt::format(" --steps {}", *flags.steps);
  if (flags.lr) command += fmt::format(" --lr {}", *flags.lr);
  if (flags.seed) command += fmt::format(" --seed {}", *flags.seed);
  if (!flags.out.empty()) command += " --out " + flags.out;
  if (!flags.resume.empty()) command += " --resume " + flags.resume;
  if (flags.device != "cpu") command += " --device " + flags.device;
  return command;
}

void train(const Flags& flags) {
  check_usage(flags);
  const fs::path folder = folder_of(flags);
  const bool resumed =
      !flags.resume.empty() && (flags.resume != "auto" || fs::exists(folder / "config.toml"));
  if (!resumed && flags.recipe.empty())
    throw UsageError("train", fmt::format("{} must be a run to go on with; name the recipe to begin one",
                                          folder.string()));
  stop_on_signals(/*second_ends=*/true);
  RunInfo info{.command = command_of(flags),
               .version = BRIDLE_VERSION,
               .commit = commit(),
               .status = "running",
               .seed = 0};
  std::unique_ptr<Trainer> trainer;
  TrainSummary summary;
  Terminal terminal;
  try {
    trainer = open_trainer(flags, folder, resumed, terminal.listener());
    info.seed = trainer->options().training.seed;
    if (resumed && fs::exists(folder / "run.json"))
      update_run_status(folder, "running");
    else
      write_run_info(folder, info);
    summary = trainer->run(&stop_requested);
  } catch (const std::exception&) {
    if (trainer) update_run_status(folder, "failed");  // otherwise the folder is not ours to write to
    throw;
  }
  update_run_status(folder, summary.finished ? "finished" : "stopped");
  terminal.clear();
  print_summary(summary, folder, flags.json);
  if (!summary.finished) end_by_signal();
}

}  // namespace

void add_train(CLI::App& app) {
  CLI::App* verb = app.add_subcommand("train", "Train a model as a recipe says");
  verb->footer(
      "Examples:\n"
      "  bridle train quickstart                              the recipe that comes with Bridle\n"
      "  bridle train recipes/quickstart.toml --steps 200 --seed 1\n"
      "  bridle train recipes/shakespeare_budget.toml --lipschitz 20\n"
      "  bridle train recipes/shakespeare_soft_cap.toml --set constraint.sigma_max=2 --out runs/two\n"
      "  bridle train recipes/quickstart.toml --out runs/q --resume auto     goes on if runs/q is a run of "
      "this recipe\n"
      "  bridle train --resume runs/two\n"
      "Exit codes: 0 the run is finished; 1 an error; 2 wrong usage; 3 a promised bound could not be kept;\n"
      "130 SIGINT and 143 SIGTERM: the run is saved and not finished.");
  auto flags = std::make_shared<Flags>();
  verb->add_option("recipe", flags->recipe, "A TOML file, or the name of a recipe that comes with Bridle")
      ->type_name("RECIPE");
  verb->add_option("--lipschitz", flags->lipschitz,
                   "The budget: the sound bound is kept at or below it at every step")
      ->type_name("L");
  verb->add_option("--steps", flags->steps, "Optimizer steps: training.steps")->type_name("N");
  verb->add_option("--lr", flags->lr, "Learning rate: optimizer.lr")->type_name("η");
  verb->add_option("--seed", flags->seed, "Of weights, order and all else: training.seed")->type_name("N");
  verb->add_option("--set", flags->set, "Any other key over the recipe; may be repeated")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  verb->add_option("--out", flags->out, "The run's folder [runs/RECIPE]")->type_name("DIR");
  verb->add_option("--resume", flags->resume, "auto, or a run's folder")->type_name("RUN");
  add_device(*verb, flags->device);
  verb->add_flag("--json", flags->json, "Print one JSON object at the end");
  verb->add_flag("--keys", flags->keys, "Print every key of a recipe, its default and what it means");
  verb->callback([flags] { flags->keys ? fmt::print("{}", recipe_keys()) : train(*flags); });
}

}  // namespace bridle
