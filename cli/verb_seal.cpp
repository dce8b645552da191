// bridle seal: a model scaled below its caps or below a bound, with a certificate, in a folder of its own.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <nlohmann/json.hpp>

#include "bound_text.h"
#include "bridle/error.h"
#include "bridle/run.h"
#include "verbs.h"

namespace bridle {
namespace {

using Json = nlohmann::ordered_json;

struct Flags {
  std::string run;
  std::string out;
  std::optional<double> lipschitz;
  bool json = false;
};

Json to_json(const SealResult& result) {
  const double bound = result.bound.lipschitz.value;
  return {{"schema", 1},
          {"changed", result.changed},
          {"loss_before", result.loss_before ? Json(*result.loss_before) : Json(nullptr)},
          {"loss_after", result.loss_after ? Json(*result.loss_after) : Json(nullptr)},
          {"lipschitz", std::isfinite(bound) ? Json(bound) : Json(nullptr)},
          {"log10_lipschitz", result.bound.lipschitz.log10}};
}

void seal(const Flags& flags) {
  const SealResult result = seal_run(flags.run, flags.out, flags.lipschitz);
  if (flags.json) return fmt::print("{}\n", to_json(result).dump(2));
  const size_t count = result.changed.size();
  fmt::print("{} {} scaled\n", count, count == 1 ? "weight was" : "weights were");
  if (result.loss_before)
    fmt::print("validation loss {:.4f} before, {:.4f} after\n", *result.loss_before, *result.loss_after);
  else
    fmt::print("no validation loss: {}\n", result.no_loss);
  fmt::print("Lipschitz bound {}; sealed and certified in {}\n", text_of(result.bound.lipschitz), flags.out);
}

}  // namespace

void add_seal(CLI::App& app) {
  CLI::App* verb = app.add_subcommand("seal", "Scale a model's weights below its caps or below a bound");
  verb->footer(
      "Writes config.json, model.safetensors and certificate.json to --out; the run stays as it is.\n"
      "Examples:\n"
      "  bridle seal runs/quickstart --out sealed --lipschitz 20\n"
      "Exit code 3: no bound can be established.");
  auto flags = std::make_shared<Flags>();
  verb->add_option("run", flags->run, "A run, or any folder with config.json and model.safetensors")
      ->required()
      ->type_name("RUN");
  verb->add_option("--out", flags->out, "The sealed model's folder, missing or empty")
      ->required()
      ->type_name("DIR");
  verb->add_option("--lipschitz", flags->lipschitz, "The bound to stay below [the run's budget or caps]")
      ->type_name("L");
  verb->add_flag("--json", flags->json, "Print one JSON object");
  verb->callback([flags] { seal(*flags); });
}

}  // namespace bridle
