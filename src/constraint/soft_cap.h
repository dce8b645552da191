// Spectral soft cap: x ↦ x − αx³, then x ↦ x + αx³, with the least α that keeps σ_max for a step that can
// reach k.
#pragma once

namespace bridle {

struct SoftCapCoupling {
  double shrink;  // multiply the weight by this first; 1 unless the step is large
  double alpha;   // in units of 1/cap², for a cap of 1
};

// `reach` is k/σ_max, the largest norm before the cap in units of it. docs/theory/constraints.md,
// statement 1.
SoftCapCoupling soft_cap_coupling(double reach);

}  // namespace bridle
