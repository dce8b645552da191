// The mask of dropout as a tensor, for the plain twin of kernels that make it on the way.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace bridle {

// [sequences, length, columns] of 0 (dropped) and 1, float32. Rows are numbered as fused passes number them, where a sequence is
// padded to whole blocks.
at::Tensor dropout_mask(int64_t sequences, int64_t length, int64_t columns, uint64_t key, double share);

}  // namespace bridle
