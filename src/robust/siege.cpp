#include "robust/siege.h"

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

// A pixel's value for every input of the model, from one a channel.
at::Tensor per_pixel(const std::array<double, 3>& values, int64_t pixels) {
  const at::Tensor result = at::empty({3, pixels / 3}, at::kFloat);
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

// How far the best other logit is above the right one: above 0 the image is broken. [N]
at::Tensor margins(const at::Tensor& logits, const at::Tensor& labels) {
  return others(logits, labels).amax(1).sub(picked(logits, labels));
}

at::Tensor surprise(const at::Tensor& logits, const at::Tensor& labels) {
  return picked(at::log_softmax(logits, 1), labels).neg();
}

at::Tensor lengths(const at::Tensor& steps) { return steps.square().sum(1, /*keepdim=*/true).sqrt(); }

}  // namespace

Victim::Victim(const Model& model, const std::optional<ChannelStatistics>& standardised) : model_(model) {
  if (!standardised) return;
  mean_ = per_pixel(standardised->mean, model.shape().size);
  deviation_ = per_pixel(standardised->deviation, model.shape().size);
}

at::Tensor Victim::plain(const at::Tensor& inputs) const {
  return mean_.defined() ? inputs.mul(deviation_).add(mean_).clamp(0.0, 1.0) : inputs;
}

at::Tensor Victim::logits(const at::Tensor& images) const {
  Pass pass{.dtype = at::kFloat};
  return model_.forward(mean_.defined() ? images.sub(mean_).div(deviation_) : images, pass);
}

Siege::Siege(const Victim& victim, at::Tensor images, at::Tensor labels, at::Tensor predicted, bool box)
    : victim_(victim),
      images_(std::move(images)),
      labels_(std::move(labels)),
      predicted_(std::move(predicted)),
      box_(box) {
  const at::Tensor logits = victim_.logits(images_).detach();
  others_ = others(logits, labels_).argsort(1, /*descending=*/true).narrow(1, 0, logits.size(1) - 1);
  right_ = logits.argmax(1).eq(labels_);
  const at::Tensor changed = logits.argmax(1).ne(predicted_);
  for (Found* found : {&by_gradient_, &by_search_})
    *found = {at::zeros_like(right_), changed.clone(), surprise(logits, labels_), images_.clone()};
  best_ = images_.clone();
  best_margin_ = margins(logits, labels_);
}

Found Siege::by_both() const {
  const at::Tensor more = by_search_.surprise.gt(by_gradient_.surprise);
  return {by_gradient_.broken.logical_or(by_search_.broken),
          by_gradient_.changed.logical_or(by_search_.changed),
          at::where(more, by_search_.surprise, by_gradient_.surprise),
          at::where(more.unsqueeze(1), by_search_.worst, by_gradient_.worst)};
}

at::Tensor Siege::start(const at::Tensor& away) const {
  return inside(images_.add(away.mul(epsilon_).div(lengths(away).clamp_min(1e-30))), images_);
}

void Siege::climb(const at::Tensor& start, int64_t goal, int steps) {
  const at::AutoGradMode gradients(true);
  const at::Tensor target = others_.select(1, std::max<int64_t>(goal - 1, 0) % others_.size(1));
  const int64_t count = images_.size(0);
  at::Tensor x = inside(start, images_);
  at::Tensor best = x;
  at::Tensor best_direction = at::zeros_like(x);
  at::Tensor best_value = at::full({count}, -std::numeric_limits<double>::infinity(), x.options());
  at::Tensor stalled = at::zeros({count}, at::kLong);
  at::Tensor step = at::full({count, 1}, epsilon_, x.options());
  for (int i = 0; i <= steps; ++i) {
    x = x.detach().requires_grad_(true);
    const at::Tensor logits = victim_.logits(x);
    const at::Tensor value =
        goal == 0 ? surprise(logits, labels_) : picked(logits, target).sub(picked(logits, labels_));
    const at::Tensor gradient = torch::autograd::grad({value.sum()}, {x})[0];
    const at::NoGradGuard no_gradients;
    x = x.detach();
    see(x, logits, by_gradient_);
    const at::Tensor better = value.gt(best_value);
    best_value = at::where(better, value, best_value);
    best = at::where(better.unsqueeze(1), x, best);
    at::Tensor direction = gradient.div(lengths(gradient).clamp_min(1e-30));
    best_direction = at::where(better.unsqueeze(1), direction, best_direction);
    stalled = at::where(better, at::zeros_like(stalled), stalled.add(1));
    const at::Tensor tired = stalled.ge(4).unsqueeze(1);
    step = at::where(tired, step.mul(0.5), step);
    stalled = stalled.masked_fill(tired.squeeze(1), 0);
    direction = at::where(tired, best_direction, direction);
    x = inside(at::where(tired, best, x).addcmul(direction, step), images_);
  }
}

void Siege::search(int queries, RandomKey key) {
  const at::NoGradGuard no_gradients;
  constexpr int together = 20;  // queries, after which those that have fallen are left out
  for (int query = 0; query < queries; query += together) {
    const at::Tensor rows = right_.logical_and(by_search_.broken.logical_not()).nonzero().squeeze(1);
    if (rows.numel() == 0) return;
    const at::Tensor images = images_.index_select(0, rows);
    const at::Tensor labels = labels_.index_select(0, rows);
    at::Tensor best = best_.index_select(0, rows);
    at::Tensor margin = best_margin_.index_select(0, rows);
    for (int i = query; i < std::min(query + together, queries); ++i, ++key.step) {
      const at::Tensor wave = cosine_waves(rows.numel(), images.size(1), key);
      const double size = epsilon_ * std::pow(0.02, static_cast<double>(i) / queries);
      for (const double sign : {1.0, -1.0}) {
        const at::Tensor x = inside(best.add(wave, sign * size), images);
        const at::Tensor found = margins(victim_.logits(x), labels);
        const at::Tensor better = found.gt(margin);
        margin = at::where(better, found, margin);
        best = at::where(better.unsqueeze(1), x, best);
      }
    }
    best_.index_copy_(0, rows, best);
    best_margin_.index_copy_(0, rows, margin);
    see(best_, victim_.logits(best_), by_search_);
  }
}

// The nearest point of the ball, a little inside for rounding's sake, and of the box.
at::Tensor Siege::inside(const at::Tensor& x, const at::Tensor& images) const {
  const double rounding = 0x1p-23 * std::sqrt(static_cast<double>(x.size(1)));
  const double radius = std::max(epsilon_ * (1.0 - 1e-4) - rounding, 0.5 * epsilon_);
  const at::Tensor step = x.sub(images);
  const at::Tensor factor = lengths(step).clamp_min(1e-30).reciprocal().mul(radius).clamp_max(1.0);
  const at::Tensor result = step.mul_(factor).add_(images);
  return box_ ? result.clamp_(0.0, 1.0) : result;
}

// Takes note of what `x` shows. Distances are measured in float64, of those that show anything new.
void Siege::see(const at::Tensor& x, const at::Tensor& logits, Found& found) const {
  const at::Tensor classes = logits.argmax(1);
  const at::Tensor falls = right_.logical_and(classes.ne(labels_)).logical_and(found.broken.logical_not());
  const at::Tensor changes = classes.ne(predicted_).logical_and(found.changed.logical_not());
  const at::Tensor seen = surprise(logits, labels_);
  const at::Tensor more = seen.gt(found.surprise);
  const at::Tensor news = falls.logical_or(changes).logical_or(more).nonzero().squeeze(1);
  if (news.numel() == 0) return;
  const at::Tensor apart = x.index_select(0, news).to(at::kDouble).sub_(images_.index_select(0, news));
  const at::Tensor near = news.masked_select(lengths(apart).squeeze(1).le(epsilon_));
  const auto rows = [&](const at::Tensor& values) { return values.index_select(0, near); };
  found.broken.index_copy_(0, near, rows(found.broken).logical_or(rows(falls)));
  found.changed.index_copy_(0, near, rows(found.changed).logical_or(rows(changes)));
  const at::Tensor worse = near.masked_select(rows(more));
  found.surprise.index_copy_(0, worse, seen.index_select(0, worse));
  found.worst.index_copy_(0, worse, x.index_select(0, worse));
}

}  // namespace bridle
