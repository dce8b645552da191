// The paper's Lipschitz formula as its code computes it, to compare with published figures. NOT A CERTIFICATE: several of
// its steps do not hold (whole norms for several heads, GeLU's divisor counted twice), and networks exceed it:
// tests/property/paper_formula_property_test.cpp. The sound bound is `Model::bound`.
#pragma once

#include "bridle/nn.h"

namespace bridle {

// With ‖·‖ the RMS→RMS norms q, k, v, o, up, down of whole matrices, c the attention's output scale, and a = 1 before the
// first block, every block multiplies
//   L by (1 − α) + α·|s·c|·o·v·(1 + 2a²·q·k), a by (1 − α) + α·|c|·o·v; then both by (1 − α) + α·up·down/divisor.
// L starts at the largest RMS of an embedding and ends with the head's norm and the final scale. An MLP: the product of
// the norms and the final scale. Throws InputError for models that the paper has no formula for. `FinalScale::forgotten` leaves the
// final scale out, as the paper's code does: published figures are such ones, and a large scale then makes any of them small.
enum class FinalScale { counted, forgotten };
UpperBound paper_formula(const Model& model, NormSource& norms, FinalScale scale = FinalScale::counted);

}  // namespace bridle
