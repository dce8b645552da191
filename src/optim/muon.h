// Muon: m ← βm + (1−β)g, then the update is orthogonalize(m)·unit, block by block, of norm at most
// update_bound(coefficients). After Jordan et al. (2024); with Nesterov's look ahead, (1−β)g + βm takes m's place.
#pragma once

#include "bridle/linalg.h"
#include "bridle/optim.h"

namespace bridle {

// β at a step: linear from momentum_start to momentum over the warm-up.
double momentum_at(const OptimizerOptions& options, int64_t step);

// Averages the gradient into the momentum, and returns what the update is made from: the momentum, or a new tensor.
Tensor average_gradient_(const Tensor& momentum, const Tensor& gradient, double beta, bool nesterov);

struct MuonOptions {
  Coefficients coefficients = Coefficients::six_step;
  std::optional<at::ScalarType> product_dtype = {};  // default: the direction's
};

// The direction [rows, columns], orthogonalised by the Param's row blocks, times the Param's unit: a new tensor.
Tensor muon_update(const Tensor& direction, const Param& param, const MuonOptions& options);

}  // namespace bridle
