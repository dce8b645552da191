// The constraints of a run: an enforcer for each weight that has one, with the cap in force.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "bridle/constraint.h"
#include "bridle/train.h"

namespace bridle {

// Which weights constraint.heads constrains head by head; none before `automatic` is resolved.
std::vector<Role> roles_by_head(HeadBlocks heads);

// The cap of a matrix or a table; 0: it has none.
double cap_of(Role role, const ConstraintSettings& settings);

class ConstraintSet {
 public:
  // Of several processes each works on the weights that it owns; those that answer for all (all_proved, prove_and_repair_) are called
  // together.
  ConstraintSet(const std::vector<Param>& params, const ConstraintSettings& settings,
                OwnedWeights owned = {});

  // One a param, in force from now on; every one of them is then proved and repaired, promised by its method or not.
  void set_caps(const std::vector<double>& caps);
  std::vector<double> caps() const;  // 0 where there is none
  bool all_proved() const;           // every cap that is promised holds as the weights are

  void start_();                                      // brings initial weights inside
  void enforce_(const std::vector<StepInfo>& steps);  // after the optimizer, in the order of the params
  void prove_and_repair_();                           // what is promised; throws PromiseError
  int64_t repairs() const { return repairs_; }        // since the run began, of all weights

  // The params with their row blocks, for the optimizer: it orthogonalises what is constrained for itself.
  const std::vector<Param>& params() const { return params_; }

  std::map<std::string, at::Tensor> state() const;
  void set_state(const std::map<std::string, at::Tensor>& state, int64_t repairs);

 private:
  struct Entry {
    size_t param;
    Enforcer enforcer;
    bool promised;  // the method guarantees the cap for the steps that it has seen
  };
  bool owns(const Entry& entry) const { return owned_.owns(entry.param); }
  bool all(bool here) const;           // and on all other processes
  std::vector<int64_t> sizes() const;  // of the entries' weights
  bool mixtures_hold() const;
  void keep_mixtures_();

  std::vector<Param> params_;
  std::vector<Entry> entries_;
  OwnedWeights owned_;
  double coupling_room_;
  bool prove_all_ = false;
  int64_t repairs_before_ = 0;  // the run was resumed
  int64_t repairs_ = 0;
};

}  // namespace bridle
