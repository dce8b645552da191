// Certificates: a Lipschitz bound of a model with every number that proves it, and its check. The statement, the file and
// the way it is checked are in docs/certificate.md.
//
//   CertifiedBound bound = certify(*model);
//   check_bound(*model, bound);                        // throws PromiseError unless it holds
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "bridle/nn.h"

namespace bridle {

// What is stated about one weight: "norm", "heads", "scaled_heads", … with one value or one a head. Never too small.
struct WeightFacts {
  std::string name;
  std::vector<int64_t> shape;
  std::string method;  // cholesky, or sums where the numbers are sums over entries
  std::map<std::string, std::vector<double>> numbers = {};
  std::vector<double> scales = {};  // of heads; empty: all 1
};

// A bound as it is written down: a double, infinite where it overflows, and its logarithm (minus infinity for zero).
struct StatedBound {
  double value = 0.0;
  double log10 = 0.0;
  static StatedBound of(const UpperBound& bound) { return {bound.to_double(), bound.log10()}; }
};

struct StatedLayer {
  std::string name;
  StatedBound activation;
  StatedBound lipschitz;
  int64_t width = 0;  // entries of a token or vector there; not part of the file
};

struct CertifiedBound {
  double token_radius = 0.0;   // every input that the model can be given has at most this norm
  double attack_radius = 0.0;  // and may be moved by this
  double domain_radius = 0.0;  // so the bound holds up to this
  StatedBound lipschitz = {};
  StatedBound largest_logit = {};
  std::vector<StatedLayer> layers = {};
  std::vector<WeightFacts> weights = {};
  UpperBound trunk = {};  // stretch up to the head's input; not part of the file
};

// From verified norms. Throws PromiseError where no bound can be established: NaN, infinity, LayerNorm without ε.
CertifiedBound certify(const Model& model, double attack_radius = 0.0);

// Proves every stated number again, from the weights, and walks the bound from them. Throws PromiseError, naming what
// does not hold; returns what is larger than it needs to be, in words.
std::vector<std::string> check_bound(const Model& model, const CertifiedBound& stated);

// ---- Tighter, or for comparison

// The activations of given inputs, computed in float64 and enlarged by a bound of that computation's own error, with a
// radius around them: for a local bound (docs/theory/modules.md, statement 10).
Neighbourhood neighbourhood_of(const Model& model, const std::vector<at::Tensor>& inputs, double radius);

// The bound that holds for inputs within `near.radius` of the given ones.
CertifiedBound certify_near(const Model& model, const Neighbourhood& near);

}  // namespace bridle
