// bridle import: a model that other tools wrote.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/display.h"
#include "base/words.h"
#include "bound_text.h"
#include "bridle/error.h"
#include "bridle/foreign.h"
#include "verbs.h"

namespace bridle {
namespace {

using Json = nlohmann::ordered_json;

struct Flags {
  std::string path;
  std::string out;
  std::string activation;
  std::string rope = "half";
  ForeignOptions options;
  bool json = false;
};

Json to_json(const ImportResult& r, const std::string& out) {
  Json facts{{"schema", 1},
             {"kind", r.kind},
             {"out", out},
             {"weights", r.weights},
             {"ignored", r.ignored},
             {"filled", r.filled},
             {"certified", r.bound.has_value()}};
  if (!r.bound) {
    facts["no_bound"] = r.no_bound;
    return facts;
  }
  const StatedBound& bound = r.bound->lipschitz;
  facts["lipschitz"] = std::isfinite(bound.value) ? Json(bound.value) : Json(nullptr);
  facts["log10_lipschitz"] = bound.log10;
  return facts;
}

void import_verb(Flags flags) {
  if (!flags.activation.empty())
    flags.options.activation =
        parse_word<ActivationKind, UsageError>(flags.activation, "import", "--activation");
  flags.options.rope = parse_word<RopeLayout, UsageError>(flags.rope, "import", "--rope");
  if (!(flags.options.input_bound > 0.0 && std::isfinite(flags.options.input_bound)))
    throw UsageError("import",
                     fmt::format("--input-bound must be positive, got {}", flags.options.input_bound));
  const ImportResult r = import_model(flags.path, flags.out, flags.options);
  if (flags.json) return fmt::print("{}\n", to_json(r, flags.out).dump(2));
  fmt::print("{} with {} weights, as {}\n", r.kind, shown_count(r.weights), flags.out);
  if (!r.ignored.empty())
    fmt::print("left out, as no weights: {} {}, such as {}\n", r.ignored.size(),
               r.ignored.size() == 1 ? "tensor" : "tensors", r.ignored.front());
  if (!r.filled.empty())
    fmt::print("zero, as they were not there: {} {}, such as {}\n", r.filled.size(),
               r.filled.size() == 1 ? "bias" : "biases", r.filled.front());
  if (r.bound)
    fmt::print(
        "Lipschitz bound {} (log10 {}); what each layer costs, and each head's logits:\n  bridle certify {} "
        "--heads\n",
        text_of(r.bound->lipschitz), log_text(r.bound->lipschitz.log10), flags.out);
  else
    fmt::print("no bound: {}\n", r.no_bound);
}

}  // namespace

void add_import(CLI::App& app) {
  CLI::App* verb = app.add_subcommand("import", "Bring a model that other tools wrote, to certify it");
  verb->footer(
      "Takes a folder with config.json and model.safetensors (GPT-2; Llama, Mistral, Qwen2: RMSNorm, a "
      "gated\n"
      "feed-forward layer, grouped queries, RoPE), or a safetensors file of linear layers in a row.\n"
      "Examples:\n"
      "  bridle import gpt2 --out certified-gpt2\n"
      "  bridle import net.safetensors --activation relu --input-bound 1 --out net\n"
      "  bridle certify certified-gpt2 --heads --search 0       what each layer costs, and each head's "
      "logits");
  auto flags = std::make_shared<Flags>();
  verb->add_option("path", flags->path, "A folder, or a safetensors file")->required()->type_name("PATH");
  verb->add_option("--out", flags->out, "The model's folder, missing or empty")->required()->type_name("DIR");
  verb->add_option("--activation", flags->activation,
                   "Between linear layers in a row, whose file does not say it")
      ->type_name("gelu|gelu_tanh|relu|maxmin|abs|relu_squared|tanh|silu");
  verb->add_option("--input-bound", flags->options.input_bound, "RMS of the inputs of linear layers in a row")
      ->type_name("R")
      ->capture_default_str();
  verb->add_option("--rope", flags->rope,
                   "How rotary pairs lie in a head: half, as in Hugging Face's files, or interleaved")
      ->type_name("half|interleaved")
      ->capture_default_str();
  verb->add_flag("--json", flags->json, "Print one JSON object");
  verb->callback([flags] { import_verb(*flags); });
}

}  // namespace bridle
