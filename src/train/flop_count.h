// The arithmetic of a training step, counted from its shapes: 2·m·n·k for a matrix product, whatever its kernel skips or
// repeats. Attention counts the pairs that the mask leaves, T(T + 1)/2 a sequence; what is recomputed counts once; work
// on single entries, decompositions and the search for an eigenvalue do not count.
#pragma once

#include <vector>

#include "bridle/train.h"

namespace bridle {

struct FlopCount {
  double forward = 0.0;
  double backward = 0.0;  // by weights and by inputs; not by pixels
  double optimizer = 0.0;
  double constraint = 0.0;
  double proof = 0.0;     // a step's share: it comes every prove_every steps
  double bfloat16 = 0.0;  // of all of them, in products of bfloat16 factors

  double total() const { return forward + backward + optimizer + constraint + proof; }
};

// Of a TrainState's options, and its params with their row blocks.
// `params` as they are constrained.
FlopCount flop_count(const RunOptions& options, const Model& model, const std::vector<Param>& params);

// What a step costs the owner of a weight: the products of its rule and its constraint, or, where there are none, its entries.
double owner_flop(const RunOptions& options, const Param& param);

}  // namespace bridle
