// Certificates: a Lipschitz bound of a model with every number that proves it, and its check. The statement, the file and
// the way it is checked are in docs/reference/certificate.md.
//
//   CertifiedBound bound = certify(*model);
//   check_bound(*model, bound);                        // throws PromiseError unless it holds
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "bridle/nn.h"
#include "bridle/progress.h"

namespace bridle {

// What is stated about one weight: "norm", "heads", "scaled_heads", … with one value or one per head. Never too small.
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

// From verified norms, computed on the CPU in float64, wherever the model is. Throws PromiseError where no bound can be
// established: NaN, infinity, LayerNorm without ε.
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

// The paper's Lipschitz formula as its code computes it, to compare with published figures. NOT A CERTIFICATE: several of
// its steps do not hold (whole norms for several heads, GeLU's divisor counted twice), and networks exceed it:
// tests/property/paper_formula_property_test.cpp.
//
// With ‖·‖ the RMS→RMS norms q, k, v, o, up, down of whole matrices, c the attention's output scale, and a = 1 before the
// first block, every block multiplies
//   L by (1 − α) + α·|s·c|·o·v·(1 + 2a²·q·k), a by (1 − α) + α·|c|·o·v; then both by (1 − α) + α·up·down/divisor.
// L starts at the largest RMS of an embedding and ends with the head's norm and the final scale. An MLP: the product of
// the norms and the final scale. Throws InputError for models that the paper has no formula for. `FinalScale::forgotten`
// leaves the final scale out, as the paper's code does: published figures are such ones, and a large scale then makes any of
// them small.
enum class FinalScale { counted, forgotten };
UpperBound paper_formula(const Model& model, NormSource& norms, FinalScale scale = FinalScale::counted);

// What LipsFormer's theorem 1 and equation 19 give, as the paper's appendix D uses them, to compare with its figure of 10^130.
// NOT A CERTIFICATE: theorem 1 is about sequences of N tokens of one head, and the paper puts the head's size in the place of N.
//
// With ‖·‖ ordinary spectral norms of whole matrices, N the head's size, τ = softmax_scale, ν = attention_output_scale·√N·heads
// (the paper's 1 where that is 1/(√N·heads)) and ε = N·qk_norm_epsilon, which is what |q|² is raised by:
//   attention 2·ν·ε^(−1/2)·[(N − 1)·τ·(N·‖K‖ + ‖Q‖) + N·‖V‖], the feed-forward layer ‖up‖·‖down‖/divisor;
//   the model: the product of 1 + max|α|·(one of these) over all branches. Embedding and head play no part, nor do W_O and norms.
// Throws InputError for models that are not LipsFormer: it needs qk_norm and value_norm with ε > 0, and plain residuals.
UpperBound lipsformer_formula(const Model& model, NormSource& norms);

// ---- From below: a search for the two inputs of the domain whose difference the model stretches most. It is evidence, not a
// proof: the true Lipschitz constant lies between what it finds and the certified bound.

constexpr double kLeastSearchDomain = 1e-100;  // squares of far smaller inputs would underflow

struct SearchOptions {
  double domain = 1.0;          // norm of both inputs: the largest RMS over tokens
  int64_t sequence_length = 8;  // transformers
  int starts = 4;               // random and structured ones, ascended side by side
  int rounds = 60;              // of ascent, a forward and a backward pass each
  uint64_t seed = 0;
  OnProgress on_progress = {};
};

// Norms are the largest RMS over tokens; everything is in float64, whatever the weights' precision.
struct ObservedStretch {
  double lipschitz = 0.0;      // ‖f(x) − f(x′)‖/‖x − x′‖
  double largest_logit = 0.0;  // max|f(x) − f(x′)|/‖x − x′‖
  at::Tensor first, second;    // x and x′ of `lipschitz`: [1, T, d] or [1, D], both inside the domain
  at::Tensor logit_first, logit_second;  // and of `largest_logit`
};

// Both ratios are those of the inputs given beside them, rounded down with the forward pass's own error taken off: lower
// bounds of the Lipschitz constant. They depend on the weights and the options alone; the weights and their gradients stay
// as they are. Throws InputError for options that make no sense, NumericError where the model's outputs are not finite.
ObservedStretch search_stretch(const Model& model, const SearchOptions& options);

}  // namespace bridle
