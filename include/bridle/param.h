// Param: one weight as the optimizer and the constraints see it; StepInfo: what the optimizer tells the
// constraint about the step it has just made. Norms are RMS→RMS throughout: σ(W)·√(fan_in/fan_out).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <limits>
#include <string>

namespace bridle {

using at::Tensor;

// What a weight is for. Optimizers and constraints are chosen by it, never by matching names.
enum class Role {
  linear,
  query,
  key,
  value,
  attention_output,
  mlp_up,
  mlp_down,
  mixing_output,
  content_query,  // of content heads: every head is capped and orthogonalised for itself
  content_key,
  head,
  embedding,
  position_embedding,
  position_bias,
  logit_bias,
  bias,
  gain,
  residual_weight,  // α of a branch, kept in [0, 1]
  mixing_weight,    // coefficients of a mixture, of length at most 1
  memory,           // rows whose products are remembered
  memory_decay,
  content_range,  // logarithms of how far content moves logits
};

const char* role_name(Role role);
bool is_matrix(Role role);  // a linear map that has a spectral norm to constrain
bool is_table(Role role);   // rows that stand for themselves, capped row by row

struct Param {
  std::string name = {};
  Tensor tensor = {};  // may be a view, for example of rows in a fused qkv matrix
  Role role = Role::linear;
  int64_t heads = 1;    // equal row blocks that belong to heads of attention
  int64_t blocks = 1;   // equal row blocks, each constrained and orthogonalised for itself
  int64_t fan_in = 0;   // 0: the tensor's columns
  int64_t fan_out = 0;  // 0: the tensor's rows
  double mass = 1.0;    // relative to the other weights of its group: how much of the learning rate it gets
  // Residual connections of each kind that the signal passes after this weight's own one.
  int64_t attention_residuals_after = 0;
  int64_t mlp_residuals_after = 0;

  // [blocks, rows, columns], sharing the tensor's memory. Throws InputError where the rows do not divide.
  Tensor block_view() const;

  // The ordinary spectral norm of a block whose RMS→RMS norm is 1: √(fan_out of a block / fan_in).
  double unit() const;
};

// All in the units of a block: the step was W ← (1 − decay·learning_rate)·W − learning_rate·update with
// ‖update‖ ≤ update_bound. Infinity: the optimizer knows no bound (AdamW).
struct StepInfo {
  double learning_rate = 0.0;
  double decay = 0.0;
  double update_bound = std::numeric_limits<double>::infinity();

  bool has_update_bound() const { return update_bound < std::numeric_limits<double>::infinity(); }

  // The largest norm after the step of a weight whose norm was at most `norm` before it, rounded up.
  double reach(double norm) const;
};

}  // namespace bridle
