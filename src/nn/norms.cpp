// Norms measured from the weights as they are, each proved from above.
#include <ATen/ops/cat.h>
#include <ATen/ops/from_blob.h>
#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "bridle/error.h"
#include "bridle/linalg.h"
#include "bridle/nn.h"

namespace bridle {
namespace {

class MeasuredNorms : public Norms {
 public:
  UpperBound matrix(const Param& weight) override {
    return bounds(weight, values(weight).unsqueeze(0)).at(0);
  }

  std::vector<UpperBound> heads(const Param& weight, int64_t heads) override {
    return bounds(weight, blocks(weight, heads));
  }

  // The scales are rounded up to float32, so that their products with float32 weights are exact in float64.
  UpperBound scaled_heads(const Param& weight, std::span<const UpperBound> scales) override {
    std::vector<double> factors;
    for (const UpperBound& scale : scales) {
      const double value = scale.to_double();
      auto rounded = static_cast<float>(value);
      if (rounded < value) rounded = std::nextafter(rounded, std::numeric_limits<float>::infinity());
      factors.push_back(rounded);
    }
    const auto heads = static_cast<int64_t>(scales.size());
    const at::Tensor factor =
        at::from_blob(factors.data(), {heads, 1, 1}, at::kDouble).to(weight.tensor.device());
    const at::Tensor scaled = blocks(weight, heads).to(at::kDouble).mul(factor);
    if (weight.tensor.scalar_type() == at::kDouble)
      throw PromiseError(
          "bound", fmt::format("{} is float64; bounds are for weights in float32 or bfloat16", weight.name));
    return bounds(weight, scaled.reshape({1, weight.tensor.size(0), weight.tensor.size(1)})).at(0);
  }

  UpperBound largest_row_rms(const Param& table) override {
    const auto bound = row_rms_bound(values(table));
    if (!bound) refuse(table);
    return *bound;
  }

  UpperBound largest_entry(const Param& vector) override {
    const double value = values(vector).to(at::kDouble).abs().max().item<double>();
    if (!std::isfinite(value)) refuse(vector);
    return value;
  }

  UpperBound euclidean(const Param& vector) override { return euclidean_heads(vector, 1).at(0); }

  std::vector<UpperBound> euclidean_heads(const Param& vector, int64_t heads) override {
    std::vector<UpperBound> result;
    const at::Tensor parts = values(vector).view({heads, -1});
    for (int64_t h = 0; h < heads; ++h) {
      const auto rms = row_rms_bound(parts.narrow(0, h, 1));
      if (!rms) refuse(vector);
      result.push_back(*rms * sqrt(UpperBound(static_cast<double>(parts.size(1)))));
    }
    return result;
  }

 private:
  static at::Tensor values(const Param& param) { return param.tensor.detach(); }

  static at::Tensor blocks(const Param& weight, int64_t heads) {
    return values(weight).view({heads, weight.tensor.size(0) / heads, weight.tensor.size(1)});
  }

  [[noreturn]] static void refuse(const Param& param) {
    throw PromiseError(
        "bound",
        fmt::format("no bound of {} can be established: it holds NaN or infinity, or the proof failed",
                    param.name));
  }

  static std::vector<UpperBound> bounds(const Param& weight, const at::Tensor& matrices) {
    std::vector<UpperBound> result;
    for (const auto& bound : spectral_norm_bounds(matrices)) {
      if (!bound) refuse(weight);
      result.push_back(bound->value);
    }
    return result;
  }
};

}  // namespace

std::unique_ptr<Norms> measured_norms() { return std::make_unique<MeasuredNorms>(); }

}  // namespace bridle
