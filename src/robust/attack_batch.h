// A batch of images under attack at one ε: PGD and black-box search, and what each has found. bridle/attack.h has the whole.
#pragma once

#include <optional>

#include "bridle/data.h"
#include "bridle/nn.h"
#include "bridle/random.h"

namespace bridle {

// Logits of plain pixels in float32, as `eval` computes them.
class Classifier {
 public:
  Classifier(const Model& model, const std::optional<ChannelStatistics>& standardised);
  at::Tensor plain(const at::Tensor& inputs) const;  // pixels of what the model reads
  at::Tensor logits(const at::Tensor& images) const;

 private:
  const Model& model_;
  at::Tensor mean_, deviation_;
};

// What one attack has found, per image.
struct AttackFindings {
  at::Tensor broken;   // classified correctly before, misclassified now
  at::Tensor changed;  // another class than the certified prediction
  at::Tensor nll;      // the largest negative log-likelihood of the right class
  at::Tensor worst;    // the perturbed image that has it
};

class AttackBatch {
 public:
  // `predicted`: the classes that certificates are about.
  AttackBatch(const Classifier& classifier, at::Tensor images, at::Tensor labels, at::Tensor predicted,
              bool box);

  void set_epsilon(double epsilon) { epsilon_ = epsilon; }
  const at::Tensor& correct() const { return correct_; }  // without perturbation
  const AttackFindings& by_gradient() const { return by_gradient_; }
  const AttackFindings& by_search() const { return by_search_; }
  AttackFindings by_both() const;

  at::Tensor random_start(const at::Tensor& direction) const;  // on the sphere, in each image's direction

  // PGD from `start` with normalised gradients. Target 0 maximises the cross-entropy; target k = 1, 2 … the logit of the k-th
  // likeliest wrong class of the clean image over that of the right one. A step size that has not helped four times in a row is
  // halved, and the image goes back to its best point.
  void pgd(const at::Tensor& start, int64_t target, int steps);

  // Adds cosine waves of random frequency and channel, smaller and smaller, with both signs, to the images that are not
  // broken, and keeps what raises the margin of another class.
  void search(int queries, RandomKey key);

 private:
  at::Tensor project(const at::Tensor& x, const at::Tensor& images) const;
  void record(const at::Tensor& x, const at::Tensor& logits, AttackFindings& found) const;

  const Classifier& classifier_;
  at::Tensor images_, labels_, predicted_;
  at::Tensor others_;  // [N, classes − 1], the likeliest first
  bool box_;
  double epsilon_ = 0.0;
  at::Tensor correct_;
  AttackFindings by_gradient_, by_search_;
  at::Tensor best_margin_, best_;  // of the search
};

}  // namespace bridle
