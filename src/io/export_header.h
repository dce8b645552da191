// A small MLP as a C++11 header with its weights and `evaluate`, which needs <cmath> and nothing else: for controllers and
// firmware. Weights stand there with nine digits, which float32 comes back from exactly.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bridle/certify.h"
#include "bridle/nn.h"

namespace bridle {

constexpr int64_t kLargestHeader = int64_t{1} << 21;  // weights: about 28 MB of text

// What raw inputs were turned into the model's by, (x − mean)/deviation; one pair for `each` inputs in a row.
struct Standardisation {
  std::vector<double> mean, deviation;
  int64_t each = 1;
};

struct HeaderFacts {
  std::string name = {};                         // of the namespace
  std::string sha256 = {};                       // of model.safetensors
  std::optional<CertifiedBound> bound = {};      // none: there is no finite one
  std::optional<Standardisation> standard = {};  // none: inputs are taken as they are
};

// Throws InputError for models that are no MLPs, or too large.
std::string header_text(const Model& model, const HeaderFacts& facts);

// A file's name as a C++ identifier.
std::string identifier_of(const std::string& stem);

}  // namespace bridle
