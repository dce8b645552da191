// Networks that try a bound hard, and a twin of the bound in plain double that can be given mistakes on purpose.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "bridle/nn.h"

namespace bridle::test {

// One of many: shape, scales and weights depend on its number alone.
struct Network {
  std::string kind = {};
  std::unique_ptr<Model> model = {};  // float32
  double domain = 1.0;
  int64_t sequence_length = 0;
};

// Kinds take turns. Random weights: orthogonal, trained_like (decaying spectra, a few large singular values). Built so
// that the bound, or its part that a mistake leaves out, is nearly reached: one_head (all content in one of several heads),
// different_tokens (every head reads another token), neuron (GeLU at its steepest), growth (activations grow before
// attention), content (a large softmax scale).
constexpr int kNetworkKinds = 7;
Network network(int number);

// The largest stretch that a quick search finds.
double observed_lipschitz(const Network& network, int rounds = 24);

enum class Mistake {
  none,
  whole_norms,       // the formula of one head, with norms of whole matrices, for several
  no_kappa,          // GeLU's slope taken as 1
  rounded_kappa,     // and as 1.1289, which is 4·10⁻⁶ too small (erf form)
  fixed_activation,  // a of the input used in every block
  no_softmax_scale,  // s left out
  divided_twice,     // GeLU's divisor counted twice
};

// What Model::bound computes, for models without norms and biases, from singular values by LAPACK. The scales of heads
// are a free choice, so it takes the library's.
double twin_bound(const Network& network, Mistake mistake);

}  // namespace bridle::test
