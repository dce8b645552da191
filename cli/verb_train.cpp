// bridle train: a recipe becomes a run.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "bound_text.h"
#include "bridle/error.h"
#include "bridle/run.h"
#include "bridle/train.h"
#include "device_flag.h"
#include "progress_line.h"
#include "stop_signals.h"
#include "verbs.h"

namespace bridle {
namespace {

namespace fs = std::filesystem;

struct Flags {
  std::string recipe;
  std::vector<std::string> set;
  std::string out;
  std::string resume;
  std::optional<double> lipschitz;
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

void check_usage(const Flags& flags) {
  device_named(flags.device, "train");  // before anything is made
  const bool named = !flags.resume.empty() && flags.resume != "auto";
  if (flags.recipe.empty() && !named && (flags.resume.empty() || flags.out.empty()))
    throw UsageError("train", "name a recipe, such as recipes/quickstart.toml, or --resume DIR");
  if (named && !flags.out.empty())
    throw UsageError("train",
                     fmt::format("--out and --resume {} do not go together: a resumed run stays where it is",
                                 flags.resume));
  if (flags.lipschitz && !(*flags.lipschitz > 0.0 && std::isfinite(*flags.lipschitz)))
    throw InputError("train", fmt::format("--lipschitz must be positive, got {}", *flags.lipschitz));
}

// A new run, or the one that is there; a recipe and settings must then be those that it has.
std::unique_ptr<Trainer> open_trainer(const Flags& flags, const fs::path& folder, bool resumed,
                                      const TrainListener& listener) {
  std::vector<std::string> set = flags.set;
  if (flags.lipschitz) set.push_back(fmt::format("constraint.lipschitz={}", *flags.lipschitz));
  RunOptions options = resumed && flags.recipe.empty() ? read_config(folder / "config.toml", set)
                                                       : read_recipe(flags.recipe, set);
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
  fmt::print("{:<24}{}\n", "run", folder.string());
  fmt::print("{:<24}{} in {}\n", "steps", s.step, clock_text(s.seconds));
  fmt::print("{:<24}{:.4f}, accuracy {:.1f} %\n", "validation loss", s.validation_loss,
             100.0 * s.validation_accuracy);
  fmt::print("{:<24}{}\n", "repairs", s.repairs);
  if (s.budget > 0.0)
    fmt::print("{:<24}{}; {}, {}, was kept and proved at every step\n", "budget", s.budget,
               s.papers_budget ? "the paper's formula for the caps, which is no bound" : "the caps' bound",
               s.bound_of_caps.to_string());
  if (s.sealed)
    fmt::print("{:<24}loss {:.6f} before, {:.6f} after\n", "sealed", s.loss_before_seal, s.validation_loss);
  if (s.bound)
    fmt::print("{:<24}{} (RMS → RMS, inputs of norm up to {}; norms verified)\n", "Lipschitz bound",
               text_of(s.bound->lipschitz), s.bound->domain_radius);
  else
    fmt::print("{:<24}none: this model has no finite bound\n", "Lipschitz bound");
}

std::string command_of(const Flags& flags) {
  std::string command = "bridle train " + flags.recipe;
  if (flags.lipschitz) command += fmt::format(" --lipschitz {}", *flags.lipschitz);
  for (const std::string& set : flags.set) command += " --set " + set;
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
    throw UsageError("train",
                     fmt::format("{} is not a run: name the recipe to begin one with", folder.string()));
  stop_on_signals(/*second_ends=*/true);
  RunInfo info{.command = command_of(flags),
               .version = BRIDLE_VERSION,
               .commit = BRIDLE_COMMIT,
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
      "  bridle train recipes/quickstart.toml\n"
      "  bridle train recipes/shakespeare_budget.toml --lipschitz 20\n"
      "  bridle train recipes/shakespeare_soft_cap.toml --set constraint.sigma_max=2 --out runs/two\n"
      "  bridle train recipes/quickstart.toml --out runs/q --resume auto     goes on if runs/q is a run of "
      "this recipe\n"
      "  bridle train --resume runs/two\n"
      "Exit codes: 0 the run is finished; 1 an error; 2 wrong usage; 3 a promised bound could not be kept;\n"
      "130 SIGINT and 143 SIGTERM: the run is saved and not finished.");
  auto flags = std::make_shared<Flags>();
  verb->add_option("recipe", flags->recipe, "A TOML file; recipes/ has one for each experiment");
  verb->add_option("--lipschitz", flags->lipschitz,
                   "The budget: the sound bound is kept at or below it at every step");
  verb->add_option("--set", flags->set, "section.key=value over the recipe; may be repeated")
      ->allow_extra_args(false);
  verb->add_option("--out", flags->out, "The run's folder [runs/RECIPE]");
  verb->add_option("--resume", flags->resume, "auto, or a run's folder");
  add_device(*verb, flags->device);
  verb->add_flag("--json", flags->json, "Print one JSON object at the end");
  verb->add_flag("--keys", flags->keys, "Print every key of a recipe, its default and what it means");
  verb->callback([flags] { flags->keys ? fmt::print("{}", recipe_keys()) : train(*flags); });
}

}  // namespace bridle
