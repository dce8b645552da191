// Budget first: caps whose sound bound (or, to compare with the paper, its formula) is at most a Lipschitz constant named in
// advance. Every matrix has cap 1 but the head, which has the largest cap that fits. Blocks of stretch 1 then cost nothing, whatever
// their number, and the head carries the bound: docs/theory/budget.md
#pragma once

#include <vector>

#include "bridle/nn.h"

namespace bridle {

struct BudgetOptions {
  double lipschitz = 0.0;
  bool papers = false;  // of the paper's formula instead of the sound bound
  double embedding_cap = 1.0;
};

struct Budget {
  std::vector<double> caps;  // one per param, in RMS→RMS units; 0: it has none
  UpperBound bound;          // of these caps, at most the budget
};

// `params` as they are constrained. Throws InputError for a budget that no cap of the head can keep, saying what could be.
Budget budget_for(const Model& model, const std::vector<Param>& params, const BudgetOptions& options);

}  // namespace bridle
