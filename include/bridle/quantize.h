// A model whose matrices and tables are 8-bit integers with a scale per row, certified as the exact numbers that these stand for,
// with a proved bound of its distance to the original. docs/how-to/quantize.md
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "bridle/certify.h"

namespace bridle {

struct QuantizeResult {
  int64_t matrices = 0;      // and tables
  int64_t bytes_before = 0;  // of all weights
  int64_t bytes_after = 0;   // of int8.safetensors' tensors
  CertifiedBound before = {};
  CertifiedBound bound = {};                 // of the quantised model
  double head_scale = 1.0;                   // what the head was multiplied by, to be below the bound again
  StatedBound deviation = {};                // of the logits, RMS, for every input of the domain
  StatedBound largest_logit_deviation = {};  // of any one logit
  double observed_deviation = 0.0;           // RMS, the largest over some inputs: from below
  std::optional<double> loss_before = {}, loss_after = {};  // on the validation split, where that is here
  std::string no_loss = {};                                 // why there is none
};

// `folder` is a run, or holds config.json and model.safetensors. A run with a budget is brought below it again; `lipschitz` names
// another bound. Writes config.json, model.safetensors (the products, float32), int8.safetensors, certificate.json and
// quantization.json to `out`, which must be missing or empty. Throws InputError, PromiseError.
QuantizeResult quantize_model(const std::filesystem::path& folder, const std::filesystem::path& out,
                              std::optional<double> lipschitz = std::nullopt);

}  // namespace bridle
