// bridle train: a recipe becomes a run.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/display.h"
#include "bound_text.h"
#include "bridle/error.h"
#include "bridle/ranks.h"
#include "bridle/run.h"
#include "bridle/train.h"
#include "device_flag.h"
#include "dist/gather.h"
#include "dist/launch.h"
#include "progress_line.h"
#include "rank_launcher.h"
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
  int64_t ranks = 1;
  int64_t restarts = 0;
  std::string rendezvous;
  double rank_timeout = 120.0;  // seconds
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
  if (flags.ranks < 1)
    throw UsageError("train", fmt::format("--ranks must be at least 1, got {}", flags.ranks));
  if (flags.restarts < 0)
    throw UsageError("train", fmt::format("--restarts must be 0 or more, got {}", flags.restarts));
  if (!(flags.rank_timeout >= 0.1 && flags.rank_timeout <= 86400.0))
    throw UsageError(
        "train", fmt::format("--rank-timeout must be from 0.1 to 86400 seconds, got {}", flags.rank_timeout));
  if (flags.lipschitz && !(*flags.lipschitz > 0.0 && std::isfinite(*flags.lipschitz)))
    throw InputError("train", fmt::format("--lipschitz must be positive, got {}", *flags.lipschitz));
}

// Of several GPUs of a machine each rank takes its own.
at::Device device_of(const Flags& flags) {
  at::Device device = device_named(flags.device, "train");
  const auto launched = launched_rank(std::getenv);
  if (device.is_cuda() && launched) device.set_index(static_cast<c10::DeviceIndex>(launched->local_rank));
  return device;
}

std::chrono::milliseconds timeout_of(const Flags& flags) {
  return std::chrono::milliseconds(static_cast<int64_t>(1000.0 * flags.rank_timeout));
}

// A new run, or the one that is there; a recipe and settings must then be those that it has.
std::unique_ptr<Trainer> open_trainer(const Flags& flags, const fs::path& folder, bool resumed,
                                      const TrainListener& listener, const std::shared_ptr<Ranks>& ranks) {
  const std::vector<std::string> set = settings_of(flags);
  // The folder is rank 0's alone.
  if (flags.recipe.empty() && !ranks->leads()) return Trainer::resume(folder, {}, std::nullopt, ranks);
  RunOptions options = resumed && flags.recipe.empty() ? read_config(folder / "config.toml", set)
                                                       : read_recipe(recipe_file(flags.recipe), set);
  options.device = device_of(flags);
  if (!resumed) return std::make_unique<Trainer>(options, folder, listener, ranks);
  return Trainer::resume(folder, listener, options, ranks);
}

// This process among those that torchrun, mpirun, srun or --ranks have started; alone where none has.
std::shared_ptr<Ranks> join(const Flags& flags) {
  const auto launched = launched_rank(std::getenv);
  if (!launched) {
    if (!flags.rendezvous.empty())
      throw UsageError("train",
                       "--rendezvous is for ranks that torchrun, mpirun or srun start; start bridle with one "
                       "of them, or take --ranks on one machine");
    return alone();
  }
  const std::string rendezvous = flags.rendezvous.empty() ? launched->rendezvous : flags.rendezvous;
  if (rendezvous.empty())
    throw UsageError("train", fmt::format("{} does not say where its ranks meet: add --rendezvous "
                                          "tcp:HOST:PORT, with an address of rank 0's machine",
                                          launched->launcher));
  follow_launcher();
  return join_ranks({.rank = launched->rank,
                     .size = launched->size,
                     .rendezvous = rendezvous,
                     .timeout = timeout_of(flags)});
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

// The words of the command, but for those about ranks.
std::vector<std::string> words_of(const Flags& flags) {
  std::vector<std::string> words{"train"};
  const auto add = [&words](const char* flag, const std::string& value) {
    words.emplace_back(flag);
    words.push_back(value);
  };
  if (!flags.recipe.empty()) words.push_back(flags.recipe);
  if (flags.lipschitz) add("--lipschitz", fmt::format("{}", *flags.lipschitz));
  for (const std::string& set : flags.set) add("--set", set);
  if (flags.steps) add("--steps", fmt::format("{}", *flags.steps));
  if (flags.lr) add("--lr", fmt::format("{}", *flags.lr));
  if (flags.seed) add("--seed", fmt::format("{}", *flags.seed));
  if (!flags.out.empty()) add("--out", flags.out);
  if (!flags.resume.empty()) add("--resume", flags.resume);
  if (flags.device != "cpu") add("--device", flags.device);
  return words;
}

// Several processes on this machine. All of them, and those that come after a failure, work on one folder.
void launch(Flags flags) {
  if (launched_rank(std::getenv))
    throw UsageError("train",
                     "--ranks and --restarts start processes; under torchrun, mpirun or srun leave them out");
  if (flags.ranks > 1 && !why_no_ranks().empty()) throw InputError("train", why_no_ranks());
  const bool named = !flags.resume.empty() && flags.resume != "auto";
  if (!named) flags.out = folder_of(flags).string();
  stop_on_signals(/*second_ends=*/true);
  const int code =
      run_ranks({.ranks = flags.ranks,
                 .restarts = flags.restarts,
                 .timeout = timeout_of(flags),
                 .arguments = [&flags, named](bool again) {
                   Flags own = flags;
                   if (again && !named) own.resume = "auto";
                   std::vector<std::string> words = words_of(own);
                   words.insert(words.end(), {"--rank-timeout", fmt::format("{}", flags.rank_timeout)});
                   if (flags.json) words.emplace_back("--json");
                   return words;
                 }});
  if (code != 0) throw EndedWith{code};
}

class TrainCommand {
 public:
  TrainCommand(const Flags& flags, std::shared_ptr<Ranks> ranks) : flags_(flags), ranks_(std::move(ranks)) {}

  void run() {
    try {
      open();
      train();
    } catch (const RankError&) {
      note_failure();
      throw;
    } catch (const InputError& error) {
      note_failure();
      ranks_->fail(error.what());
      // A full disk under one rank, for instance: the others end with 4 as well.
      if (trainer_ && ranks_->size() > 1)
        throw RankError("ranks",
                        fmt::format("rank {} of {}: {}", ranks_->rank(), ranks_->size(), error.what()));
      throw;
    } catch (const std::exception& error) {
      note_failure();
      ranks_->fail(error.what());
      throw;
    }
    if (ranks_->leads()) end();
    if (!summary_.finished) end_by_signal();
  }

 private:
  void open() {
    folder_ = folder_of(flags_);
    bool resumed = !flags_.resume.empty() && (flags_.resume != "auto" || fs::exists(folder_ / "config.toml"));
    resumed = gather_texts(*ranks_, resumed ? "resumed" : "new").front() == "resumed";
    if (!resumed && flags_.recipe.empty())
      throw UsageError("train", fmt::format("{} must be a run to go on with; name the recipe to begin one",
                                            folder_.string()));
    const TrainListener listener = ranks_->leads() ? terminal_.listener() : TrainListener{};
    trainer_ = open_trainer(flags_, folder_, resumed, listener, ranks_);
    if (!ranks_->leads()) return;
    if (resumed && fs::exists(folder_ / "run.json"))
      update_run_status(folder_, "running");
    else
      write_run_info(folder_, {.command = fmt::format("bridle {}", fmt::join(words_of(flags_), " ")),
                               .version = BRIDLE_VERSION,
                               .commit = commit(),
                               .status = "running",
                               .seed = trainer_->options().training.seed});
  }

  void train() {
    summary_ = trainer_->run(&stop_requested);
    ranks_->leave();
  }

  void end() {
    update_run_status(folder_, summary_.finished ? "finished" : "stopped");
    terminal_.clear();
    print_summary(summary_, folder_, flags_.json);
  }

  // Without a trainer the folder is not ours to write to.
  void note_failure() {
    try {
      if (trainer_ && ranks_->leads()) update_run_status(folder_, "failed");
    } catch (const Error&) {  // a full disk, perhaps: that is being told already
    }
  }

  const Flags& flags_;
  std::shared_ptr<Ranks> ranks_;
  fs::path folder_;
  Terminal terminal_;
  std::unique_ptr<Trainer> trainer_;
  TrainSummary summary_;
};

void train(const Flags& flags) {
  check_usage(flags);
  if (flags.ranks > 1 || flags.restarts > 0) return launch(flags);
  const std::shared_ptr<Ranks> ranks = join(flags);
  stop_on_signals(/*second_ends=*/ranks->size() == 1);
  TrainCommand(flags, ranks).run();
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
      "  bridle train recipes/quickstart.toml --set training.slices=2 --ranks 2 --restarts 3\n"
      "Exit codes: 0 the run is finished; 1 an error; 2 wrong usage; 3 a promised bound could not be kept;\n"
      "4 a rank was lost, or could not go on; 130 SIGINT and 143 SIGTERM: the run is saved and not "
      "finished.");
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
  verb->add_option("--ranks", flags->ranks, "Processes on this machine that share the slices of each step")
      ->type_name("N")
      ->capture_default_str();
  verb->add_option("--restarts", flags->restarts, "Starts all ranks anew so often when one was lost")
      ->type_name("K")
      ->capture_default_str();
  verb->add_option("--rendezvous", flags->rendezvous,
                   "Under torchrun, mpirun or srun: where the ranks meet [as they say]")
      ->type_name("tcp:HOST:PORT|file:PATH");
  verb->add_option("--rank-timeout", flags->rank_timeout,
                   "A rank of which nothing is heard for so long is lost")
      ->type_name("SECONDS")
      ->capture_default_str();
  add_device(*verb, flags->device);
  verb->add_flag("--json", flags->json, "Print one JSON object at the end");
  verb->add_flag("--keys", flags->keys, "Print every key of a recipe, its default and what it means");
  verb->callback([flags] { flags->keys ? fmt::print("{}", recipe_keys()) : train(*flags); });
}

}  // namespace bridle
