// Query heads and what serves them: there may be fewer heads of keys and values, G of them for H query heads. Each then serves H/G
// query heads, one after another.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "bridle/param.h"

namespace bridle {

// Of `own` heads, the one that serves query head `head` of `heads`.
inline int64_t serving_head(int64_t head, int64_t heads, int64_t own) { return head * own / heads; }

// Entries along `dim`, one per head → one per query head.
inline at::Tensor per_query_head(const at::Tensor& own, int64_t heads, int64_t dim) {
  return own.size(dim) == heads ? own : own.repeat_interleave(heads / own.size(dim), dim);
}

template <class T>
std::vector<T> per_query_head(const std::vector<T>& own, int64_t heads) {
  std::vector<T> all;
  for (int64_t h = 0; h < heads; ++h)
    all.push_back(own[static_cast<size_t>(serving_head(h, heads, std::ssize(own)))]);
  return all;
}

// [H, rows, columns]: the row blocks of a weight, one per query head. `values` are the weight's own, in any dtype.
inline at::Tensor head_blocks(const Param& weight, const at::Tensor& values, int64_t heads) {
  return per_query_head(values.view({weight.heads, -1, values.size(1)}), heads, 0);
}

}  // namespace bridle
