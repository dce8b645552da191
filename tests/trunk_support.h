// Networks with quadrature mixing that try its bound hard, and a twin of the bound in plain double that can be given mistakes on
// purpose: statements 7, 11 and 12 of docs/theory/modules.md, as certify_support.h does it for attention.
#pragma once

#include "certify_support.h"

namespace bridle::test {

// Kinds take turns. Random weights: orthogonal, trained_like. Built so that the bound, or the part of it that a mistake leaves out,
// is nearly reached: aligned (all blocks of M say the same, and every head reads the token itself), different_tokens (every head
// reads another token and writes coordinates of its own), memory (every channel has its maximum at another token), feed_forward (its
// skip and its branch say the same), content (a content head whose queries and keys have norms beyond 1).
constexpr int kTrunkKinds = 7;
Network trunk_network(int number);

enum class TrunkMistake {
  none,
  block_norms,          // the largest norm of a block of M in the place of M's
  no_coefficients,      // |c| left out
  largest_weight,       // max|c| in the place of |c|
  spectral_memory,      // the largest singular value of u in the place of its Frobenius norm
  no_memory,            // the maximum taken to have stretch 1, whatever its rows
  feed_forward_blocks,  // residual = quadrature: the larger of the norms of M's two blocks
  feed_forward_length,  // and what f gives not made as long as tokens: √(d/n) in its stretch forgotten
  free_content,         // content heads taken to have stretch 1, whatever their queries and keys
  free_keys,            // and whatever their keys
  short_tokens,         // the tokens' norm counted once, not squared
};

double twin_bound(const Network& network, TrunkMistake mistake);

}  // namespace bridle::test
