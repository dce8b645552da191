// bridle attack: accuracy under attack, beside certified accuracy.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "base/display.h"
#include "base/files.h"
#include "bridle/attack.h"
#include "bridle/error.h"
#include "bridle/run.h"
#include "device_flag.h"
#include "progress_line.h"
#include "verbs.h"

namespace bridle {
namespace {

using Json = nlohmann::ordered_json;

struct Flags {
  std::string run;
  std::string out;
  AttackOptions options;
  std::string norm = "l2";
  std::string device = "cpu";
  bool any_pixels = false;
  bool json = false;
};

Json to_json(const Run& run, const AttackResult& result, const AttackOptions& options) {
  Json points = Json::array();
  for (const AttackPoint& point : result.points)
    points.push_back(
        {{"epsilon", point.epsilon},
         {"accuracy", point.accuracy},
         {"accuracy_by_gradient", point.accuracy_by_gradient},
         {"accuracy_by_search", options.queries > 0 ? Json(point.accuracy_by_search) : Json(nullptr)},
         {"probability", point.probability},
         {"certified_accuracy", point.certified_accuracy}});
  return {{"schema", 1},
          {"run", run.folder.string()},
          {"norm", "l2"},
          {"images", result.images},
          {"restarts", options.restarts},
          {"steps", options.steps},
          {"queries", options.queries},
          {"box", options.box},
          {"seed", options.seed},
          {"accuracy", result.accuracy},
          {"probability", result.probability},
          {"points", points}};
}

void print(const AttackResult& result, const AttackOptions& options) {
  fmt::print("{} images: accuracy {}, mean probability of the right class {:.4f}\n\n",
             shown_count(result.images), shown_percent(result.accuracy), result.probability);
  fmt::print("{:>8}{:>14}{:>12}{:>12}{:>14}{:>12}\n", "ε (ℓ2)", "under attack", "PGD", "search",
             "probability", "certified");
  for (const AttackPoint& point : result.points)
    fmt::print("{:>8}{:>14}{:>12}{:>12}{:>14.4f}{:>12}\n", shown_lower(point.epsilon),
               shown_percent(point.accuracy), shown_percent(point.accuracy_by_gradient),
               options.queries > 0 ? shown_percent(point.accuracy_by_search) : "—", point.probability,
               shown_percent_lower(point.certified_accuracy));
}

void attack_run(Flags flags) {
  if (flags.norm != "l2") throw UsageError("attack", fmt::format("--norm must be l2, got {}", flags.norm));
  const Run run = open_run(flags.run, device_named(flags.device, "attack"));
  if (std::filesystem::exists(run.folder / "statistics.json"))
    throw InputError(
        "attack",
        fmt::format("{} must be a run on images in CIFAR-10's layout; it is one on imported vectors, "
                    "whose certified predictions bridle certify --predictions counts",
                    run.folder.string()));
  flags.options.box = !flags.any_pixels;
  flags.options.standardised = pixel_statistics(run);
  const std::filesystem::path folder = flags.out.empty() ? run.folder : std::filesystem::path(flags.out);
  make_folder(folder);
  ProgressLine line;
  const AttackResult result = attack(*run.model, open_run_split(run, Split::validation), flags.options,
                                     [&line](const Progress& p) { line.show(p); });
  line.clear();
  const Json facts = to_json(run, result, flags.options);
  write_file(folder / "attack.json", facts.dump(2) + "\n");
  const bool pictures = flags.options.examples > 0 && is_square_picture(result.examples.size(2));
  if (pictures) write_sheet(result.examples, folder / "attack.png");
  if (flags.json) return fmt::print("{}\n", facts.dump(2));
  print(result, flags.options);
  fmt::print("\nwritten to {}{}\n", (folder / "attack.json").string(),
             pictures ? fmt::format("; {} images, as they are and at every ε: {}", result.examples.size(1),
                                    (folder / "attack.png").string())
                      : "");
}

}  // namespace

void add_attack(CLI::App& app) {
  CLI::App* verb = app.add_subcommand("attack", "Accuracy under attack and certified accuracy, against ε");
  verb->footer(
      "Examples:\n  bridle attack runs/cifar\n"
      "  bridle attack runs/cifar --norm l2 --eps 0.5,1,2 --steps 40 --restarts 4\n"
      "  bridle attack runs/cifar --eps 0.5 --images 500 --json\n"
      "Exit code 3: the model has no bound, or an attack changed a prediction that is certified.");
  auto flags = std::make_shared<Flags>();
  AttackOptions& options = flags->options;
  verb->add_option("run", flags->run, "A run's folder")->required()->type_name("RUN");
  verb->add_option("--norm", flags->norm, "Of perturbations: l2, over all pixels together")
      ->type_name("l2")
      ->capture_default_str();
  verb->add_option("--eps", options.epsilons, "Radii over pixels in [0, 1], ascending [36/255 and 0.25 to 4]")
      ->type_name("ε,…")
      ->delimiter(',');
  verb->add_option("--steps", options.steps, "PGD steps per restart")->type_name("N")->capture_default_str();
  verb->add_option("--restarts", options.restarts, "PGD restarts per image and ε")
      ->type_name("N")
      ->capture_default_str();
  verb->add_option("--images", options.images, "How many images, the first ones of the validation split")
      ->type_name("N")
      ->capture_default_str();
  verb->add_option("--queries", options.queries,
                   "Cosine waves of the black-box search per image and ε; 0: no search")
      ->type_name("N")
      ->capture_default_str();
  verb->add_option("--examples", options.examples, "Images in attack.png")
      ->type_name("N")
      ->capture_default_str();
  verb->add_option("--seed", options.seed, "Of random restarts and waves")
      ->type_name("N")
      ->capture_default_str();
  verb->add_flag("--any-pixels", flags->any_pixels, "Let pixels leave [0, 1]");
  verb->add_option("--out", flags->out, "Folder for attack.json and attack.png [the run's own]")
      ->type_name("DIR");
  add_device(*verb, flags->device);
  verb->add_flag("--json", flags->json, "Print one JSON object");
  verb->callback([flags] { attack_run(*flags); });
}

}  // namespace bridle
