// Gradients on their way to the owners of weights, and weights on their way back. Alone nothing moves.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "bridle/optim.h"
#include "bridle/ranks.h"
#include "dist/slices.h"

namespace bridle {

class WeightExchange {
 public:
  struct Setup {
    std::shared_ptr<Ranks> ranks;
    std::vector<at::Tensor> weights;  // as the model has them: they are written
    std::vector<int64_t> owners;      // one per weight
    int64_t slices = 1;               // of a step
  };
  using Gradients = std::vector<at::Tensor>;  // one per weight

  WeightExchange();  // alone
  explicit WeightExchange(Setup setup);

  Ranks& ranks() const { return *setup_.ranks; }
  int64_t owner(size_t weight) const { return is_alone() ? 0 : setup_.owners[weight]; }
  bool is_alone() const { return ranks().size() == 1; }
  OwnedWeights owned() const;  // refers to this object

  // The sums of the nodes of this rank's slices (slices.h), in their order → the sums over all slices, of the weights that this rank
  // owns; the others are undefined. May add into what it is given.
  Gradients sum_at_owners(std::vector<Gradients> nodes);

  // Every rank has the weights as their owners have them.
  void share_weights_();

  // Of this rank's numbers, one per slice, those of all slices, in their order.
  std::vector<double> numbers_of_all(std::span<const double> own, int64_t per_slice) const;

  bool any(bool here) const;  // on this rank or another

  // Throws RankError, naming the rank, unless all have the same bytes of all weights.
  void check_weights() const;

 private:
  bool owns(size_t weight) const { return owner(weight) == ranks().rank(); }
  void complete_(std::vector<double>& numbers) const;
  int64_t nodes_of_rank(int64_t rank) const;
  at::Tensor place(const at::Tensor& bytes, size_t weight, int64_t node = 0) const;

  Setup setup_;
  std::vector<int64_t> places_;  // of a weight among those of its owner, in bytes
  std::vector<int64_t> bytes_;   // of all weights of an owner
  std::vector<at::Tensor> to_, from_;
  at::Tensor own_;
};

}  // namespace bridle
