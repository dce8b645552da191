// Which rule updates a weight, and at which rates: W ← (1 − λη_w)W − η·update.
//
//              matrices             embeddings                 position embeddings and biases, gains, biases
//   muon       muon, lr·share       row_normalize, lr·share    adam, adam_lr, no decay
//   adamw      adam, lr             adam, lr                   the same; without masses lr, decay from two dimensions on
//
// λ's rate η_w carries the share also where η does not. head_lr and embedding_lr stand for η and η_w where given.
#pragma once

#include <limits>

#include "bridle/optim.h"

namespace bridle {

enum class UpdateRule { muon, row_normalize, adam };

struct Plan {
  UpdateRule rule = UpdateRule::adam;
  double update_rate = 0.0;  // η before the schedule
  double decay_rate = 0.0;   // η_w before the schedule
  double decay = 0.0;        // λ
  double update_bound = std::numeric_limits<double>::infinity();
};

// Throws InputError for an option out of its range.
void check_options(const OptimizerOptions& options);

// Throws InputError where the Param's tensor is none that its role could have.
Plan plan_steps(const Param& param, double share, const OptimizerOptions& options);

}  // namespace bridle
