// Images under attack: what two adversaries do to them, and what each has found. attack.h has the whole of it.
#pragma once

#include <optional>

#include "bridle/data.h"
#include "bridle/nn.h"
#include "bridle/random.h"

namespace bridle {

// Logits of plain pixels, as `eval` computes them.
class Victim {
 public:
  Victim(const Model& model, const std::optional<ChannelStatistics>& standardised);
  at::Tensor plain(const at::Tensor& inputs) const;  // pixels of what the model reads
  at::Tensor logits(const at::Tensor& images) const;

 private:
  const Model& model_;
  at::Tensor mean_, deviation_;
};

// What one adversary has found, for every image.
struct Found {
  at::Tensor broken;    // was right, is not any more
  at::Tensor changed;   // another class than the certified prediction
  at::Tensor surprise;  // the largest −log probability of the right class
  at::Tensor worst;     // where
};

// Some images under attack within one ε.
class Siege {
 public:
  // `predicted`: the classes that certificates are about.
  Siege(const Victim& victim, at::Tensor images, at::Tensor labels, at::Tensor predicted, bool box);

  void allow(double epsilon) { epsilon_ = epsilon; }
  const at::Tensor& right() const { return right_; }
  const Found& by_gradient() const { return by_gradient_; }
  const Found& by_search() const { return by_search_; }
  Found by_both() const;

  at::Tensor start(const at::Tensor& away) const;  // a point of the sphere in each image's direction

  // Climbs from `start` along normalised gradients of the cross-entropy (0), or towards the class that is so many places behind
  // the right one where nothing is perturbed (1, 2 …). A step that has not helped four times in a row is halved, from the best
  // point again: each image finds its own.
  void climb(const at::Tensor& start, int64_t goal, int steps);

  // Tries cosine waves of random frequency and channel, smaller and smaller, each both ways, on the images that still stand, and
  // keeps what brings another class nearer.
  void search(int queries, RandomKey key);

 private:
  at::Tensor inside(const at::Tensor& x, const at::Tensor& images) const;
  void see(const at::Tensor& x, const at::Tensor& logits, Found& found) const;

  const Victim& victim_;
  at::Tensor images_, labels_, predicted_;
  at::Tensor others_;  // [N, classes − 1], the likeliest first
  bool box_;
  double epsilon_ = 0.0;
  at::Tensor right_;
  Found by_gradient_, by_search_;
  at::Tensor best_margin_, best_;  // of the search
};

}  // namespace bridle
