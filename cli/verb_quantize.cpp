// bridle quantize: 8-bit integers with a scale per row, certified as what they stand for.
#include "bridle/quantize.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/display.h"
#include "bound_text.h"
#include "bridle/error.h"
#include "verbs.h"

namespace bridle {
namespace {

using Json = nlohmann::ordered_json;

struct Flags {
  std::string run;
  std::string out;
  std::optional<double> lipschitz;
  bool int8 = false;
  bool json = false;
};

Json bound_json(const StatedBound& bound) {
  return std::isfinite(bound.value) ? Json(bound.value) : Json(nullptr);
}

Json to_json(const QuantizeResult& r, const std::string& out) {
  const auto or_null = [](const std::optional<double>& value) {
    return value ? Json(*value) : Json(nullptr);
  };
  return {{"schema", 1},
          {"out", out},
          {"matrices", r.matrices},
          {"bytes_before", r.bytes_before},
          {"bytes_after", r.bytes_after},
          {"lipschitz_before", bound_json(r.before.lipschitz)},
          {"lipschitz", bound_json(r.bound.lipschitz)},
          {"log10_lipschitz", r.bound.lipschitz.log10},
          {"head_scale", r.head_scale},
          {"deviation_bound", bound_json(r.deviation)},
          {"log10_deviation_bound", r.deviation.log10},
          {"largest_logit_deviation_bound", bound_json(r.largest_logit_deviation)},
          {"observed_deviation", r.observed_deviation},
          {"loss_before", or_null(r.loss_before)},
          {"loss_after", or_null(r.loss_after)}};
}

void quantize(const Flags& flags) {
  if (!flags.int8) throw UsageError("quantize", "name what weights become: --int8");
  std::string run = flags.run;
  while (run.size() > 1 && run.back() == '/') run.pop_back();
  const std::string out = flags.out.empty() ? run + "-int8" : flags.out;
  const QuantizeResult r = quantize_model(flags.run, out, flags.lipschitz);
  if (flags.json) return fmt::print("{}\n", to_json(r, out).dump(2));
  fmt::print("{} matrices and tables as 8-bit integers: {}, from {}\n", r.matrices,
             shown_bytes(static_cast<double>(r.bytes_after)),
             shown_bytes(static_cast<double>(r.bytes_before)));
  if (r.head_scale != 1.0)
    fmt::print("the head was scaled by {} to be below the bound again\n", shown(r.head_scale));
  if (r.loss_before)
    fmt::print("validation loss {:.4f} before, {:.4f} after\n", *r.loss_before, *r.loss_after);
  else
    fmt::print("no validation loss: {}\n", r.no_loss);
  fmt::print("Lipschitz bound {} before, {} after\n", text_of(r.before.lipschitz),
             text_of(r.bound.lipschitz));
  fmt::print("logits differ by at most {} (RMS), any one by at most {}; found on some inputs: {}\n",
             text_of(r.deviation), text_of(r.largest_logit_deviation), shown_lower(r.observed_deviation));
  fmt::print("certified in {0}; check it with\n  bridle check {0}/certificate.json\n", out);
}

}  // namespace

void add_quantize(CLI::App& app) {
  CLI::App* verb = app.add_subcommand(
      "quantize", "8-bit weights, certified as what they stand for, and how far from the original");
  verb->footer(
      "Writes config.json, model.safetensors (scale times integer, exactly), int8.safetensors (the integers "
      "and\n"
      "their scales), certificate.json and quantization.json to --out; the run stays as it is.\n"
      "Examples:\n"
      "  bridle quantize runs/quickstart --int8\n"
      "  bridle quantize runs/quickstart --int8 --out small --lipschitz 20\n"
      "Exit code 3: no bound can be established.");
  auto flags = std::make_shared<Flags>();
  verb->add_option("run", flags->run, "A run, or any folder with config.json and model.safetensors")
      ->required()
      ->type_name("RUN");
  verb->add_flag("--int8", flags->int8, "8-bit integers with a scale per row");
  verb->add_option("--out", flags->out, "The quantised model's folder, missing or empty [RUN-int8]")
      ->type_name("DIR");
  verb->add_option("--lipschitz", flags->lipschitz, "The bound to stay below [the run's budget]")
      ->type_name("L");
  verb->add_flag("--json", flags->json, "Print one JSON object");
  verb->callback([flags] { quantize(*flags); });
}

}  // namespace bridle
