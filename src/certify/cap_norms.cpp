#include "certify/cap_norms.h"

#include <fmt/format.h>

#include <algorithm>

#include "bridle/error.h"
#include "nn/linear.h"

namespace bridle {
namespace {

UpperBound root(int64_t n) { return root_of_ratio(n, 1); }

}  // namespace

CapNorms::Capped CapNorms::find(const Param& weight) const {
  // A head that is the embedding has a name of its own, but the table's caps.
  const auto same = [&](const Param& p) {
    return p.name == weight.name || (weight.role == Role::embedding && p.role == Role::embedding);
  };
  const auto found = std::find_if(params_.begin(), params_.end(), same);
  const double cap = found == params_.end() ? 0.0 : caps_.at(static_cast<size_t>(found - params_.begin()));
  if (!(cap > 0.0))
    throw PromiseError("budget", fmt::format("nothing caps {} ({}), so no bound can be kept in advance",
                                             weight.name, role_name(weight.role)));
  return {*found, cap};
}

UpperBound CapNorms::block(const Capped& entry) {
  const Param& param = entry.param;
  const int64_t out = param.fan_out != 0 ? param.fan_out : param.tensor.size(0);
  const int64_t in = param.fan_in != 0 ? param.fan_in : param.tensor.size(1);
  return entry.cap * root_of_ratio(out / param.blocks, in);
}

UpperBound CapNorms::matrix(const Param& weight) {
  const Capped entry = find(weight);
  if (is_table(entry.param.role))
    return entry.cap * root(weight.tensor.size(0)) * root(weight.tensor.size(1));
  return block(entry) * root(entry.param.blocks);
}

std::vector<UpperBound> CapNorms::heads(const Param& weight, int64_t heads) {
  const Capped entry = find(weight);
  return std::vector<UpperBound>(static_cast<size_t>(heads),
                                 entry.param.blocks == heads ? block(entry) : matrix(weight));
}

UpperBound CapNorms::scaled_heads(const Param& weight, std::span<const UpperBound> scales) {
  const Capped entry = find(weight);
  const UpperBound whole = matrix(weight) * *std::max_element(scales.begin(), scales.end());
  if (entry.param.blocks != static_cast<int64_t>(scales.size())) return whole;
  UpperBound squares = 0.0;
  for (const UpperBound& scale : scales) squares += scale * scale;
  return min(whole, block(entry) * sqrt(squares));
}

UpperBound CapNorms::scaled_columns(const Param& weight, std::span<const double> scales) {
  return matrix(weight) * *std::max_element(scales.begin(), scales.end());
}

std::vector<double> CapNorms::head_scales(const Param& /*value*/, const Param& /*output*/, int64_t heads,
                                          const Price& /*price*/) {
  return std::vector<double>(static_cast<size_t>(heads), 1.0);
}

UpperBound CapNorms::largest_row_rms(const Param& table) {
  const Capped entry = find(table);
  if (is_table(entry.param.role)) return entry.cap;
  return matrix(table) * root_of_ratio(1, table.tensor.size(1));
}

// A position bias, a decay and the range of a content head cost nothing, so they need no cap; everything else here would.
UpperBound CapNorms::largest_entry(const Param& vector) {
  const bool is_free = vector.role == Role::position_bias || vector.role == Role::memory_decay ||
                       vector.role == Role::content_range;
  return is_free ? UpperBound(0.0) : find(vector).cap;
}

// A bias of the logits moves them, and nothing that a cap is for. An MLP's stretch does not depend on its activations, which its
// biases make as large as they like.
UpperBound CapNorms::euclidean(const Param& vector) {
  if (vector.role == Role::logit_bias) return 0.0;
  if (vector.role == Role::mixing_weight) return 1.0;
  const auto is_table_of = [](const Param& p) { return is_table(p.role); };
  if (vector.role == Role::bias && std::none_of(params_.begin(), params_.end(), is_table_of))
    return UpperBound::unbounded();
  return find(vector).cap * root(vector.tensor.numel());
}

std::vector<UpperBound> CapNorms::euclidean_heads(const Param& vector, int64_t heads) {
  return std::vector<UpperBound>(static_cast<size_t>(heads),
                                 find(vector).cap * root(vector.tensor.numel() / heads));
}

}  // namespace bridle
