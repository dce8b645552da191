// A model that other tools wrote, as one of Bridle's: names mapped, layouts turned, the architecture in config.json. Then it can be
// certified as any other. docs/how-to/import.md
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bridle/architecture.h"
#include "bridle/certify.h"
#include "bridle/nn.h"

namespace bridle {

// How a file's rotary pairs lie in a head of h rows: (i, i + h/2), as Hugging Face and Bridle have them, or (2i, 2i + 1).
enum class RopeLayout { half, interleaved };
const char* word(RopeLayout layout);  // null past the last

struct ForeignOptions {
  std::optional<ActivationKind> activation = {};  // of linear layers in a row, whose file does not say it
  double input_bound = 1.0;                       // RMS of their inputs
  RopeLayout rope = RopeLayout::half;
};

struct ForeignModel {
  std::string kind;  // "gpt2", "llama", "mlp"
  std::unique_ptr<Model> model;
  std::vector<std::string> ignored = {};  // tensors that are no weights: masks, tables of frequencies
  std::vector<std::string> filled = {};   // biases that were not there and are zero
};

// `path`: a folder with config.json and model.safetensors (or shards with their index), or a safetensors file, beside which
// config.json may lie. GPT-2, Llama-style models, and linear layers in a row. Throws InputError, naming what Bridle has not.
ForeignModel read_foreign(const std::filesystem::path& path, const ForeignOptions& options = {});

struct ImportResult {
  std::string kind = {};
  int64_t weights = 0;
  std::vector<std::string> ignored = {}, filled = {};
  std::optional<CertifiedBound> bound = {};
  std::string no_bound = {};  // which part has none, and why
};

// Writes config.json, model.safetensors and, where there is a bound, certificate.json to `out`, which must be missing or empty.
ImportResult import_model(const std::filesystem::path& path, const std::filesystem::path& out,
                          const ForeignOptions& options = {});

}  // namespace bridle
