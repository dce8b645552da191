#include "nn/norms.h"

#include <ATen/ops/from_blob.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "bridle/error.h"
#include "bridle/linalg.h"
#include "nn/heads.h"

namespace bridle {
namespace {

// On the CPU, where proofs run. Exact: float16 fits into float32, which the proofs take.
at::Tensor values_of(const Param& param) {
  const at::Tensor values = param.tensor.detach().cpu();
  return values.scalar_type() == at::kHalf ? values.to(at::kFloat) : values;
}

at::Tensor row_blocks(const Param& weight, int64_t heads) {
  return values_of(weight).view({heads, weight.tensor.size(0) / heads, weight.tensor.size(1)});
}

// Exact in float64: the factors have float32's digits, and so have the weights.
at::Tensor scaled_exactly_by(const Param& weight, const at::Tensor& blocks, std::vector<double> factors,
                             at::IntArrayRef shape) {
  if (weight.tensor.scalar_type() == at::kDouble)
    throw PromiseError(
        "bound", fmt::format("{} is float64; bounds are for weights in float32 or bfloat16", weight.name));
  return blocks.to(at::kDouble).mul(at::from_blob(factors.data(), shape, at::kDouble));
}

// Large random matrices have no gap below their norm, and the last digits of it would cost all the eigenvalues.
double excess_for(const at::Tensor& matrices) {
  return std::min(matrices.size(1), matrices.size(2)) < 512 ? 1e-8 : 1e-5;
}

class MeasuredNorms : public WeightNorms {
 protected:
  std::vector<UpperBound> establish(const NormQuestion& question) override { return measure(question); }
};

}  // namespace

std::optional<NormSource::Entries> NormSource::entries(const Param& weight) {
  const at::Tensor values = weight.tensor.detach().to(at::kDouble);
  const Entries own{values.min().item<double>(), values.max().item<double>()};  // NaN where there is one
  for (const double value : {own.least, own.largest})
    if (!std::isfinite(value))
      throw PromiseError("bound", fmt::format("{} must be finite, got {}", weight.name, value));
  return own;
}

double float_above(double value) {
  if (value > std::numeric_limits<float>::max()) return std::numeric_limits<double>::infinity();
  auto rounded = static_cast<float>(value);
  if (rounded < value) rounded = std::nextafter(rounded, std::numeric_limits<float>::infinity());
  return rounded;
}

UpperBound WeightNorms::matrix(const Param& weight) {
  return establish({weight, "norm", NormKind::spectral, values_of(weight).unsqueeze(0)}).at(0);
}

std::vector<UpperBound> WeightNorms::heads(const Param& weight, int64_t heads) {
  return establish({weight, "heads", NormKind::spectral, row_blocks(weight, heads)});
}

UpperBound WeightNorms::scaled_heads(const Param& weight, std::span<const UpperBound> scales) {
  std::vector<double> factors;
  for (const UpperBound& scale : scales) factors.push_back(float_above(scale.to_double()));
  const auto heads = static_cast<int64_t>(scales.size());
  const at::Tensor scaled = scaled_exactly_by(weight, row_blocks(weight, heads), factors, {heads, 1, 1});
  const at::Tensor whole = scaled.reshape({1, weight.tensor.size(0), weight.tensor.size(1)});
  return establish({weight, "scaled_heads", NormKind::spectral, whole}).at(0);
}

UpperBound WeightNorms::scaled_columns(const Param& weight, std::span<const double> scales) {
  if (std::all_of(scales.begin(), scales.end(), [](double scale) { return scale == 1.0; }))
    return matrix(weight);
  const auto blocks = static_cast<int64_t>(scales.size());
  const int64_t rows = weight.tensor.size(0);
  const at::Tensor parts = values_of(weight).view({rows, blocks, -1});
  const at::Tensor scaled =
      scaled_exactly_by(weight, parts, {scales.begin(), scales.end()}, {1, blocks, 1}).view({1, rows, -1});
  return establish({weight, "scaled_columns", NormKind::spectral, scaled}).at(0);
}

// Balanced: a head whose values are large and whose output columns are small is scaled up there and down here. Taken
// only where it helps by more than the estimates may be wrong.
std::vector<double> WeightNorms::head_scales(const Param& value, const Param& output, int64_t heads,
                                             const Price& price) {
  const std::vector<double> ones(static_cast<size_t>(heads), 1.0);
  if (heads == 1 || value.tensor.scalar_type() == at::kDouble) return ones;
  const int64_t rows = output.tensor.size(0);
  const at::Tensor columns = values_of(output).view({rows, heads, -1}).transpose(0, 1).contiguous();
  const at::Tensor v = spectral_norm_estimate(head_blocks(value, values_of(value), heads)).to(at::kDouble);
  const at::Tensor o = spectral_norm_estimate(columns).to(at::kDouble);
  if (!(v.min().item<double>() > 0.0 && o.min().item<double>() > 0.0)) return ones;
  const at::Tensor balanced = v.div(o).sqrt().clamp(0x1p-12, 0x1p12).to(at::kFloat);
  std::vector<double> scales;
  for (int64_t h = 0; h < heads; ++h) scales.push_back(balanced[h].item<double>());
  return price(scales) < 0.97 ? scales : ones;
}

UpperBound WeightNorms::largest_row_rms(const Param& table) {
  return establish({table, "largest_row_rms", NormKind::largest_row_rms, values_of(table)}).at(0);
}

UpperBound WeightNorms::largest_entry(const Param& vector) {
  return establish({vector, "largest_entry", NormKind::largest_entry, values_of(vector)}).at(0);
}

UpperBound WeightNorms::euclidean(const Param& vector) {
  return establish({vector, "euclidean", NormKind::row_euclidean, values_of(vector).view({1, -1})}).at(0);
}

std::vector<UpperBound> WeightNorms::euclidean_heads(const Param& vector, int64_t heads) {
  return establish({vector, "euclidean_heads", NormKind::row_euclidean, values_of(vector).view({heads, -1})});
}

std::vector<UpperBound> EstimatedNorms::establish(const NormQuestion& question) {
  if (question.kind != NormKind::spectral) return measure(question);
  std::vector<UpperBound> result;
  const at::Tensor norms = spectral_norm_estimate(question.values, /*rounds=*/64).to(at::kDouble);
  for (int64_t i = 0; i < norms.size(0); ++i) {
    const double norm = norms[i].item<double>();  // NaN where squares of huge entries overflow
    result.push_back(std::isnan(norm) ? UpperBound::unbounded() : UpperBound(norm));
  }
  return result;
}

std::vector<UpperBound> measure(const NormQuestion& question) {
  const auto known = [&](const auto& bound) {
    if (bound) return *bound;
    throw PromiseError(
        "bound",
        fmt::format("no bound of {} can be established: it holds NaN or infinity, or the proof failed",
                    question.weight.name));
  };
  std::vector<UpperBound> result;
  switch (question.kind) {
    case NormKind::spectral:
      for (const auto& bound : spectral_norm_bounds(question.values, {.excess = excess_for(question.values)}))
        result.push_back(known(bound).value);
      break;
    case NormKind::largest_row_rms:
      result.push_back(known(row_rms_bound(question.values)));
      break;
    case NormKind::row_euclidean:
      for (const at::Tensor& row : question.values.split(1))
        result.push_back(known(row_rms_bound(row)) * sqrt(UpperBound(static_cast<double>(row.size(1)))));
      break;
    case NormKind::largest_entry: {
      const double value = question.values.to(at::kDouble).abs().max().item<double>();
      result.push_back(known(std::isfinite(value) ? std::optional(UpperBound(value)) : std::nullopt));
      break;
    }
  }
  return result;
}

std::unique_ptr<NormSource> measured_norms() { return std::make_unique<MeasuredNorms>(); }

}  // namespace bridle
