#include "robust/attack_batch.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "robust/cosine_waves.h"

namespace bridle {
namespace {

// A pixel's value for every input of the model, from one per channel.
at::Tensor per_pixel(const std::array<double, 3>& values, int64_t pixels, at::Device device) {
  const at::Tensor result = at::empty({3, pixels / 3}, at::device(device).dtype(at::kFloat));
  for (size_t channel = 0; channel < values.size(); ++channel)
    result[static_cast<int64_t>(channel)].fill_(values.at(channel));
  return result.view({-1});
}

at::Tensor picked(const at::Tensor& values, const at::Tensor& places) {
  return values.gather(1, places.unsqueeze(1)).squeeze(1);
}

at::Tensor others(const at::Tensor& logits, const at::Tensor& labels) {
  return logits.scatter(1, labels.unsqueeze(1), -std::numeric_limits<double>::infinity());
}

// The best other logit less the right one: above 0 the image is misclassified. [N]
at::Tensor margins(const at::Tensor& logits, const at::Tensor& labels) {
  return others(logits, labels).amax(1).sub(picked(logits, labels));
}

at::Tensor nll(const at::Tensor& logits, const at::Tensor& labels) {
  return picked(at::log_softmax(logits, 1), labels).neg();
}

at::Tensor lengths(const at::Tensor& steps) { return steps.square().sum(1, /*keepdim=*/true).sqrt(); }

}  // namespace

Classifier::Classifier(const Model& model, const std::optional<ChannelStatistics>& standardised)
    : model_(model) {
  if (!standardised) return;
  mean_ = per_pixel(standardised->mean, model.shape().size, model.device());
  deviation_ = per_pixel(standardised->deviation, model.shape().size, model.device());
}

at::Tensor Classifier::plain(const at::Tensor& inputs) const {
  return mean_.defined() ? inputs.mul(deviation_).add(mean_).clamp(0.0, 1.0) : inputs;
}

at::Tensor Classifier::logits(const at::Tensor& images) const {
  Pass pass{.dtype = at::kFloat};
  return model_.forward(mean_.defined() ? images.sub(mean_).div(deviation_) : images, pass);
}

AttackBatch::AttackBatch(const Classifier& classifier, at::Tensor images, at::Tensor labels,
                         at::Tensor predicted, bool box)
    : classifier_(classifier),
      images_(std::move(images)),
      labels_(std::move(labels)),
      predicted_(std::move(predicted)),
      box_(box) {
  const at::Tensor logits = classifier_.logits(images_).detach();
  others_ = others(logits, labels_).argsort(1, /*descending=*/true).narrow(1, 0, logits.size(1) - 1);
  correct_ = logits.argmax(1).eq(labels_);
  const at::Tensor changed = logits.argmax(1).ne(predicted_);
  for (AttackFindings* found : {&by_gradient_, &by_search_})
    *found = {at::zeros_like(correct_), changed.clone(), nll(logits, labels_), images_.clone()};
  best_ = images_.clone();
  best_margin_ = margins(logits, labels_);
}

AttackFindings AttackBatch::by_both() const {
  const at::Tensor more = by_search_.nll.gt(by_gradient_.nll);
  return {by_gradient_.broken.logical_or(by_search_.broken),
          by_gradient_.changed.logical_or(by_search_.changed),
          at::where(more, by_search_.nll, by_gradient_.nll),
          at::where(more.unsqueeze(1), by_search_.worst, by_gradient_.worst)};
}

at::Tensor AttackBatch::random_start(const at::Tensor& direction) const {
  return project(images_.add(direction.mul(epsilon_).div(lengths(direction).clamp_min(1e-30))), images_);
}

void AttackBatch::pgd(const at::Tensor& start, int64_t target, int steps) {
  const at::AutoGradMode gradients(true);
  const at::Tensor wrong = others_.select(1, std::max<int64_t>(target - 1, 0) % others_.size(1));
  const int64_t count = images_.size(0);
  at::Tensor x = project(start, images_);
  at::Tensor best = x;
  at::Tensor best_direction = at::zeros_like(x);
  at::Tensor best_value = at::full({count}, -std::numeric_limits<double>::infinity(), x.options());
  at::Tensor without_gain = at::zeros({count}, x.options().dtype(at::kLong));  // steps
  at::Tensor step = at::full({count, 1}, epsilon_, x.options());
  for (int i = 0; i <= steps; ++i) {
    x = x.detach().requires_grad_(true);
    const at::Tensor logits = classifier_.logits(x);
    const at::Tensor value =
        target == 0 ? nll(logits, labels_) : picked(logits, wrong).sub(picked(logits, labels_));
    const at::Tensor gradient = torch::autograd::grad({value.sum()}, {x})[0];
    const at::NoGradGuard no_gradients;
    x = x.detach();
    record(x, logits, by_gradient_);
    const at::Tensor better = value.gt(best_value);
    best_value = at::where(better, value, best_value);
    best = at::where(better.unsqueeze(1), x, best);
    at::Tensor direction = gradient.div(lengths(gradient).clamp_min(1e-30));
    best_direction = at::where(better.unsqueeze(1), direction, best_direction);
    without_gain = at::where(better, at::zeros_like(without_gain), without_gain.add(1));
    const at::Tensor stalled = without_gain.ge(4).unsqueeze(1);
    step = at::where(stalled, step.mul(0.5), step);
    without_gain = without_gain.masked_fill(stalled.squeeze(1), 0);
    direction = at::where(stalled, best_direction, direction);
    x = project(at::where(stalled, best, x).addcmul(direction, step), images_);
  }
}

void AttackBatch::search(int queries, RandomKey key) {
  const at::NoGradGuard no_gradients;
  constexpr int together = 20;  // queries, after which broken images are left out
  for (int query = 0; query < queries; query += together) {
    const at::Tensor rows = correct_.logical_and(by_search_.broken.logical_not()).nonzero().squeeze(1);
    if (rows.numel() == 0) return;
    const at::Tensor images = images_.index_select(0, rows);
    const at::Tensor labels = labels_.index_select(0, rows);
    at::Tensor best = best_.index_select(0, rows);
    at::Tensor margin = best_margin_.index_select(0, rows);
    for (int i = query; i < std::min(query + together, queries); ++i, ++key.step) {
      const at::Tensor wave = cosine_waves(rows.numel(), images.size(1), key).to(images.device());
      const double size = epsilon_ * std::pow(0.02, static_cast<double>(i) / queries);
      for (const double sign : {1.0, -1.0}) {
        const at::Tensor x = project(best.add(wave, sign * size), images);
        const at::Tensor found = margins(classifier_.logits(x), labels);
        const at::Tensor better = found.gt(margin);
        margin = at::where(better, found, margin);
        best = at::where(better.unsqueeze(1), x, best);
      }
    }
    best_.index_copy_(0, rows, best);
    best_margin_.index_copy_(0, rows, margin);
    record(best_, classifier_.logits(best_), by_search_);
  }
}

// Onto the ball, with a little room for rounding, and the box.
at::Tensor AttackBatch::project(const at::Tensor& x, const at::Tensor& images) const {
  const double rounding = 0x1p-23 * std::sqrt(static_cast<double>(x.size(1)));
  const double radius = std::max(epsilon_ * (1.0 - 1e-4) - rounding, 0.5 * epsilon_);
  const at::Tensor step = x.sub(images);
  const at::Tensor factor = lengths(step).clamp_min(1e-30).reciprocal().mul(radius).clamp_max(1.0);
  const at::Tensor result = step.mul_(factor).add_(images);
  return box_ ? result.clamp_(0.0, 1.0) : result;
}

// Keeps what `x` shows. Distances are measured in float64, of the images that show anything new.
void AttackBatch::record(const at::Tensor& x, const at::Tensor& logits, AttackFindings& found) const {
  const at::Tensor classes = logits.argmax(1);
  const at::Tensor breaks = correct_.logical_and(classes.ne(labels_)).logical_and(found.broken.logical_not());
  const at::Tensor changes = classes.ne(predicted_).logical_and(found.changed.logical_not());
  const at::Tensor seen = nll(logits, labels_);
  const at::Tensor more = seen.gt(found.nll);
  const at::Tensor news = breaks.logical_or(changes).logical_or(more).nonzero().squeeze(1);
  if (news.numel() == 0) return;
  const at::Tensor apart = x.index_select(0, news).to(at::kDouble).sub_(images_.index_select(0, news));
  const at::Tensor near = news.masked_select(lengths(apart).squeeze(1).le(epsilon_));
  const auto rows = [&](const at::Tensor& values) { return values.index_select(0, near); };
  found.broken.index_copy_(0, near, rows(found.broken).logical_or(rows(breaks)));
  found.changed.index_copy_(0, near, rows(found.changed).logical_or(rows(changes)));
  const at::Tensor worse = near.masked_select(rows(more));
  found.nll.index_copy_(0, worse, seen.index_select(0, worse));
  found.worst.index_copy_(0, worse, x.index_select(0, worse));
}

}  // namespace bridle
