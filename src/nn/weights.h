// Makes a model's weights, each with its name, role and initial values, and remembers them in order.
#pragma once

#include <optional>
#include <vector>

#include "bridle/nn.h"

namespace bridle {

class Weights {
 public:
  Weights(const ModelOptions& options, std::optional<uint64_t> seed, at::ScalarType dtype,
          std::vector<Param>& params)
      : options_(options), seed_(seed), dtype_(dtype), params_(params) {}

  // Facts about residuals after the weights to come; see Param.
  int64_t attention_residuals_after = 0;
  int64_t mlp_residuals_after = 0;

  // [out, in]: semi-orthogonal with RMS→RMS norm 1, and zero where a branch or the network ends (out-projections, head); or
  // normal as nanoGPT has it, smaller by the depth where a branch ends.
  Param matrix(const std::string& name, Role role, int64_t out, int64_t in);
  Param table(const std::string& name, Role role, int64_t rows,
              int64_t columns);  // rows of RMS 1, or normal(0.02)
  Param vector(const std::string& name, Role role, at::IntArrayRef shape, double value);

  const ModelOptions& options() const { return options_; }

 private:
  Param add(const std::string& name, Role role, const at::Tensor& values);
  Param add_zero(const std::string& name, Role role, at::IntArrayRef shape);
  at::Tensor normal(at::IntArrayRef shape) const;
  const ModelOptions& options_;
  std::optional<uint64_t> seed_;  // none: every weight is zero, to be loaded
  at::ScalarType dtype_;
  std::vector<Param>& params_;
};

}  // namespace bridle
