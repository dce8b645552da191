// A trained model for programs without Bridle: a C++ header, a folder for PyTorch, an ONNX file. docs/how-to/export.md
//
//   export_model("runs/quickstart", {.format = ExportFormat::torch, .out = "exported"});
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace bridle {

enum class ExportFormat { header, torch, onnx };
const char* word(ExportFormat format);  // null past the last

struct ExportOptions {
  ExportFormat format = ExportFormat::torch;
  std::filesystem::path out =
      {};  // a folder for torch, which must be missing or empty; else a file, which is replaced
  // So many inputs, drawn from the domain, with the logits that Bridle computes in float64, in examples.safetensors: in the
  // folder, or beside the file.
  int64_t examples = 0;
  // ONNX files of MLPs: this example of the validation split as a VNNLIB property, in a file beside it with .vnnlib at its end.
  std::optional<int64_t> property = {};
  double epsilon = 0.0;  // of the property, for every entry of the model's input; 0: the certified one
};

struct ExportResult {
  std::vector<std::filesystem::path> files = {};
  std::string sha256 = {};                         // of the model's weights
  std::optional<double> lipschitz = {};            // none: there is no finite bound
  std::optional<double> certified_euclidean = {};  // of the property
  std::optional<double> certified_epsilon = {};
  std::optional<double> epsilon = {};
};

// `folder` is a run, or holds config.json and model.safetensors. Throws InputError, naming the option, for what the format cannot
// have.
ExportResult export_model(const std::filesystem::path& folder, const ExportOptions& options);

}  // namespace bridle
