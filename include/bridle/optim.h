// Optimizers: gradient → update → weight. The update rule of a weight is chosen by its role, its learning rate is the
// common one times its share, and every step says by how much it can have changed a weight's norm.
//
//   Optimizer optimizer(params, {.method = OptimizerMethod::muon, .lr = 0.1});
//   for (int64_t t = 0; t < steps; ++t) {
//     ... gradients, one a Param ...
//     const auto infos = optimizer.step_(gradients, schedule_factor({}, t, steps), t);
//     ... enforcers[i].enforce_(infos[i]) ...
//   }
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bridle/linalg.h"
#include "bridle/param.h"

namespace bridle {

// ---- The share of the learning rate that a weight gets: docs/theory/steps.md
// --------------------------------------

// What a residual connection divides the rates before it by: 1, 2, or as the paper words it (attention 4, MLP 2).
enum class ResidualSensitivity { one, two, literal };
const char* word(ResidualSensitivity sensitivity);  // in recipes; null past the last

struct MassOptions {
  bool use = true;              // false: every share is 1
  double blocks_mass = 32.0;    // of all weights in transformer blocks together
  double embedding_mass = 1.0;  // of all embeddings together
  double head_mass = 1.0;       // of the head
  ResidualSensitivity residual_sensitivity = ResidualSensitivity::one;
};

// mass / Σ mass ÷ the sensitivities of all residuals after the weight. The three group masses count only where there are
// weights of transformer blocks; elsewhere every matrix and embedding has its own mass. Params that are neither
// (position embeddings too) have no mass and share 1. Throws InputError for masses that make no sense.
std::vector<double> learning_rate_shares(std::span<const Param> params, const MassOptions& options = {});

// ---- The learning rate over time
// -----------------------------------------------------------------------------------

enum class ScheduleShape { constant, linear, cosine, stable_decay };
const char* word(ScheduleShape shape);

struct ScheduleOptions {
  ScheduleShape shape = ScheduleShape::linear;
  int64_t warmup_steps = 0;  // the rate first grows linearly; linear and cosine begin after it
  double decay_share = 0.4;  // stable_decay: the last part of all steps, over which the rate falls linearly
  double final_share = 0.0;  // what the factor falls to
};

// What the learning rate is multiplied by at a step, counted from 0, of so many; final_share after the last. Throws
// InputError for numbers that make no sense.
double schedule_factor(const ScheduleOptions& options, int64_t step, int64_t steps);

// ---- The optimizer
// -------------------------------------------------------------------------------------------------

enum class OptimizerMethod { muon, adamw };  // for matrices
const char* word(OptimizerMethod method);

// automatic: row_normalize under muon, adam under adamw; its word is "auto".
enum class EmbeddingRule { automatic, row_normalize, adam };
const char* word(EmbeddingRule rule);

struct OptimizerOptions {
  OptimizerMethod method = OptimizerMethod::muon;
  double lr = 0.1;
  double weight_decay = 0.0;  // λ: the weight is first multiplied by 1 − λη, η with its share

  // Muon, and row-normalised embeddings
  double momentum = 0.9;
  double momentum_start = 0.0;  // momentum grows from here over momentum_warmup_steps; 0: it does not
  int64_t momentum_warmup_steps = 0;
  bool nesterov = false;
  Coefficients ns_coefficients = Coefficients::six_step;  // of the orthogonalisation
  std::optional<at::ScalarType> product_dtype = {};       // of its products; default: the weight's or float32

  // AdamW, and Adam for what Muon is not made for
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-12;
  bool bias_correction = false;
  double adam_lr = 0.01;  // position embeddings and biases, gains, biases; AdamW without masses takes lr

  // Weights with a rule or a rate of their own
  EmbeddingRule embedding = EmbeddingRule::automatic;
  double inflation_limit = 16.0;  // row_normalize: a row is multiplied by at most this
  double embedding_lr = 0.0;      // 0: lr with the share
  double head_lr = 0.0;           // 0: lr with the share

  MassOptions mass = {};
  double gradient_clip = 0.0;  // the norm of all gradients together is cut to it; 0: off
};

// Where several processes train together each steps the weights that it owns.
struct OwnedWeights {
  std::vector<bool> mine = {};  // one a Param; empty: all
  // Fills in the numbers, one a Param, of the weights that other processes own. All call it together.
  std::function<void(std::vector<double>&)> complete = {};

  bool owns(size_t param) const { return mine.empty() || mine.at(param); }
  void complete_(std::vector<double>& numbers) const {
    if (complete) complete(numbers);
  }
};

// Keeps what the update rules remember; the tensors of the Params stay the caller's and are changed in place.
class Optimizer {
 public:
  // Throws InputError for options that make no sense, for two Params of one name and for tensors of a shape or dtype
  // that their role does not have.
  Optimizer(std::vector<Param> params, const OptimizerOptions& options, OwnedWeights owned = {});
  ~Optimizer();
  Optimizer(Optimizer&&) noexcept;
  Optimizer& operator=(Optimizer&&) noexcept;

  // One step for all weights, with one gradient a Param, in their order; the gradients stay as they are. `step` counts
  // from 0: momentum warm-up and bias correction go by it. Throws InputError for gradients that do not fit and
  // NumericError for NaN and Inf in one, both naming it; nothing has changed then. Gradients of weights that are not owned
  // are not looked at.
  std::vector<StepInfo> step_(std::span<const Tensor> gradients, double schedule_factor, int64_t step);

  // Multiplies the rates of each weight from now on: where steps are to be relative to its cap. Throws InputError for
  // factors that are not positive or not one a Param.
  void set_rate_factors(std::vector<double> factors);

  // A copy of all that is kept between steps for the weights that are owned, as "<name>.momentum" and, for Adam, "<name>.second_moment".
  std::map<std::string, Tensor> state() const;

  // Takes such a copy back. Throws InputError, naming the entry, for one that is missing, unknown, of another shape or
  // dtype, or not finite; nothing has changed then.
  void set_state(const std::map<std::string, Tensor>& state);

  const std::vector<double>& shares() const { return shares_; }

  // The norm of all gradients of the last step together, before clipping.
  double gradient_norm() const { return gradient_norm_; }

 private:
  struct Weight;  // a Param, the plan of its steps, and what is kept of its gradients

  double check_gradients(std::span<const Tensor> gradients) const;
  Tensor update_(const Weight& weight, const Tensor& gradient, int64_t step) const;
  std::map<std::string, Tensor> state_tensors() const;

  OptimizerOptions options_;
  OwnedWeights owned_;
  std::vector<double> shares_;
  std::vector<double> rate_factors_;
  std::vector<Weight> weights_;
  std::vector<int64_t> sizes_;
  double gradient_norm_ = 0.0;
};

}  // namespace bridle
