// Norms that are facts about the weights themselves: every question comes down to a few kinds of numbers about a tensor,
// which a subclass establishes (measures and proves, records, or checks against what is stated).
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "bridle/nn.h"

namespace bridle {

enum class NormKind {
  spectral,         // [b, m, n]: one per matrix
  largest_row_rms,  // [rows, n]: one for the table
  row_euclidean,    // [b, n]: one per row
  largest_entry,    // any: one
};

// A question: `what` names it among those about one weight ("norm", "heads", …).
struct NormQuestion {
  const Param& weight;
  const char* what;
  NormKind kind;
  at::Tensor values;
};

class WeightNorms : public NormSource {
 public:
  UpperBound matrix(const Param& weight) override;
  std::vector<UpperBound> heads(const Param& weight, int64_t heads) override;
  UpperBound scaled_heads(const Param& weight, std::span<const UpperBound> scales) override;
  UpperBound scaled_columns(const Param& weight, std::span<const double> scales) override;
  std::vector<double> head_scales(const Param& value, const Param& output, int64_t heads,
                                  const Price& price) override;
  UpperBound largest_row_rms(const Param& table) override;
  UpperBound largest_entry(const Param& vector) override;
  UpperBound euclidean(const Param& vector) override;
  std::vector<UpperBound> euclidean_heads(const Param& vector, int64_t heads) override;

 protected:
  // Throws PromiseError where a number cannot be established.
  virtual std::vector<UpperBound> establish(const NormQuestion& question) = 0;
};

// Estimates, to choose head scales by: nothing that it answers is a bound.
class EstimatedNorms : public WeightNorms {
 public:
  std::vector<double> head_scales(const Param&, const Param&, int64_t heads, const Price&) override {
    return std::vector<double>(static_cast<size_t>(heads), 1.0);
  }

 protected:
  std::vector<UpperBound> establish(const NormQuestion& question) override;
};

// Proved from the values alone. Throws PromiseError, naming the weight, for NaN, infinity and failed proofs.
std::vector<UpperBound> measure(const NormQuestion& question);

// The rounded-up float32 of a number: its products with float32 are exact in float64.
double float_above(double value);

}  // namespace bridle
