// Budget first: caps whose sound bound (or, to compare with the paper, its formula) never exceeds a Lipschitz constant named in
// advance.
//
// Scaling weight i by 1 + x changes the loss by −p_i·x, p_i = −⟨∂loss/∂W_i, W_i⟩, and log L by c_i·x, c_i = ∂log L/∂log cap_i.
// So p_i/c_i is what a unit of log L buys there. Moving caps shift log L from where it buys little to where it buys much;
// each weight is scaled with its cap. docs/theory/budget.md
#pragma once

#include <map>
#include <string>
#include <vector>

#include "bridle/nn.h"

namespace bridle {

struct BudgetOptions {
  double lipschitz = 0.0;
  bool papers = false;  // of the paper's formula instead of the sound bound
  bool moving = true;
  bool head_only = false;  // not moving: every cap but the head's is 1
  double rate = 0.08;      // the most that log cap moves at once
  double memory = 0.9;     // of the average of p_i, a move
  double embedding_cap = 1.0;
};

class Budget {
 public:
  // `params` as they are constrained. Throws InputError for a budget that no caps can keep, saying what could be.
  Budget(const Model& model, const std::vector<Param>& params, const BudgetOptions& options);

  const std::vector<double>& caps() const { return caps_; }  // one a param; 0: it has none
  const UpperBound& bound() const { return bound_; }         // of the caps in force, at most the budget

  // Sees the gradients before the step is made with them.
  void observe(const std::vector<at::Tensor>& gradients);

  // New caps; the old ones where nothing has been seen. They are tightened, then moved, each by at most `rate`·`share` in log.
  // The factor of each weight is moved/tightened, and scaling it so keeps it inside.
  std::vector<double> move(double share);

  std::map<std::string, at::Tensor> state() const;
  void set_state(const std::map<std::string, at::Tensor>& state);

 private:
  UpperBound bound_of(const std::vector<double>& caps) const;
  bool fits(const std::vector<double>& caps) const;
  std::vector<double> uniform(double cap) const;
  std::vector<double> costs() const;
  std::vector<double> merits(const std::vector<double>& costs) const;
  std::vector<double> moved_caps(double rate) const;
  void tighten(double share);

  const Model& model_;
  std::vector<Param> params_;
  BudgetOptions options_;
  std::vector<double> caps_;
  std::vector<double> seen_;    // sum of p since the last move
  std::vector<double> prices_;  // averaged
  UpperBound bound_;
};

}  // namespace bridle
