// The update of an embedding table: every token's averaged gradient at RMS 1, but multiplied by at most
// inflation_limit, so that the rounding noise of a token that hardly occurs is not blown up. RMS at most 1 a row.
#pragma once

#include <ATen/core/Tensor.h>

namespace bridle {

using at::Tensor;

// [rows, columns] → row / max(RMS of the row, 1/inflation_limit); zero rows stay zero.
Tensor normalize_rows(const Tensor& rows, double inflation_limit);

}  // namespace bridle
