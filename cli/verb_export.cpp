// bridle export: a model for programs without Bridle.
#include "bridle/export.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "base/display.h"
#include "base/words.h"
#include "bridle/error.h"
#include "verbs.h"

namespace bridle {
namespace {

using Json = nlohmann::ordered_json;

struct Flags {
  std::string run;
  std::string format;
  ExportOptions options;
  std::string out;
  bool json = false;
};

Json to_json(const Flags& flags, const ExportResult& result) {
  const auto or_null = [](const std::optional<double>& value) {
    return value ? Json(*value) : Json(nullptr);
  };
  Json facts{{"schema", 1},
             {"format", flags.format},
             {"files", Json::array()},
             {"sha256", result.sha256},
             {"lipschitz", or_null(result.lipschitz)}};
  for (const auto& file : result.files) facts["files"].push_back(file.string());
  if (result.epsilon)
    facts["property"] = {{"epsilon", *result.epsilon},
                         {"certified_epsilon", or_null(result.certified_epsilon)},
                         {"certified_euclidean", or_null(result.certified_euclidean)}};
  return facts;
}

void export_verb(Flags flags) {
  flags.options.format = parse_word<ExportFormat, UsageError>(flags.format, "export", "--format");
  flags.options.out = flags.out;
  const ExportResult result = export_model(flags.run, flags.options);
  if (flags.json) return fmt::print("{}\n", to_json(flags, result).dump(2));
  for (const auto& file : result.files) fmt::print("{}\n", file.string());
  if (result.lipschitz)
    fmt::print("Lipschitz bound {} (RMS → RMS)\n", shown_upper(*result.lipschitz));
  else
    fmt::print("no finite Lipschitz bound is known of this model\n");
  if (result.epsilon)
    fmt::print("property: every input within {} of the example's; certified up to {} (ℓ2 {})\n",
               *result.epsilon, shown_lower(*result.certified_epsilon),
               shown_lower(*result.certified_euclidean));
}

}  // namespace

void add_export(CLI::App& app) {
  CLI::App* verb =
      app.add_subcommand("export", "A model for programs without Bridle: C++ header, PyTorch, ONNX");
  verb->footer(
      "header: an MLP's weights and evaluate() in C++11, without dependencies. torch: a folder with an "
      "nn.Module\n"
      "that needs PyTorch alone. onnx: one file, opset 13.\n"
      "Examples:\n"
      "  bridle export runs/quickstart --format torch --out exported\n"
      "  bridle export runs/quickstart --format onnx --out quickstart.onnx --examples 100\n"
      "  bridle export runs/cifar --format onnx --out cifar.onnx --property 0    a VNNLIB property beside "
      "it\n"
      "  bridle export runs/controller --format header --out controller.h");
  auto flags = std::make_shared<Flags>();
  verb->add_option("run", flags->run, "A run, or any folder with config.json and model.safetensors")
      ->required()
      ->type_name("RUN");
  verb->add_option("--format", flags->format, "What is written")->required()->type_name("header|torch|onnx");
  verb->add_option("--out", flags->out, "A file, which is replaced; for torch a folder, missing or empty")
      ->required()
      ->type_name("PATH");
  verb->add_option("--examples", flags->options.examples,
                   "Also so many inputs with their logits, in examples.safetensors")
      ->type_name("N");
  verb->add_option("--property", flags->options.property,
                   "onnx, MLPs: also a VNNLIB property of this validation example")
      ->type_name("N");
  verb->add_option("--eps,--epsilon", flags->options.epsilon,
                   "Of the property, per input [the certified radius]")
      ->type_name("ε");
  verb->add_flag("--json", flags->json, "Print one JSON object");
  verb->callback([flags] { export_verb(*flags); });
}

}  // namespace bridle
