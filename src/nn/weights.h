// Makes a model's weights, each with its name, role and initial values, and remembers them in order.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "bridle/nn.h"

namespace bridle {

// Where a model's weights come from: initial values, or given ones.
struct WeightOrigin {
  std::optional<uint64_t> seed = {};  // none: every weight is zero
  at::ScalarType dtype = at::kFloat;
  at::Device device = at::kCPU;
  WeightSource given = {};  // asked for every weight, instead of all above, where there is one
};

class Weights {
 public:
  // `branches`: residual branches of the model, by which normal values are smaller where one ends.
  Weights(Initialization initialization, int64_t branches, WeightOrigin origin, std::vector<Param>& params)
      : initialization_(initialization), branches_(branches), origin_(std::move(origin)), params_(params) {}

  // Facts about residuals after the weights to come; see Param.
  bool branches_begin_at_zero = true;  // orthogonal initialization: matrices that end a branch
  int64_t attention_residuals_after = 0;
  int64_t mlp_residuals_after = 0;

  // [out, in]: semi-orthogonal with RMS→RMS norm 1, and zero where a branch or the network ends (out-projections, head); or
  // normal as nanoGPT has it, smaller by the depth where a branch ends; or normal of spectral norm 1.
  struct MatrixShape {
    int64_t out, in;
    int64_t heads = 1;
    int64_t fan_in = 0;  // see Param
    bool apart = false;  // heads begin, are capped and are orthogonalised for themselves: Param::blocks
  };
  Param matrix(const std::string& name, Role role, const MatrixShape& shape);
  Param table(const std::string& name, Role role, int64_t rows,
              int64_t columns);  // rows of RMS 1, or normal(0.02)
  Param vector(const std::string& name, Role role, at::IntArrayRef shape, double value);
  bool are_given() const { return static_cast<bool>(origin_.given); }

 private:
  Param add(const std::string& name, Role role, const at::Tensor& values);
  at::Tensor plain(const std::string& name, at::IntArrayRef shape) const;  // given, or zero
  at::Tensor initial_matrix(Role role, const MatrixShape& shape) const;
  bool is_plain() const { return are_given() || !origin_.seed; }
  at::Tensor normal(at::IntArrayRef shape) const;
  Initialization initialization_;
  int64_t branches_;
  WeightOrigin origin_;
  std::vector<Param>& params_;
};

}  // namespace bridle
