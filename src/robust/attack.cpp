#include "robust/attack.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "bridle/error.h"
#include "bridle/random.h"
#include "robust/predictions.h"

namespace bridle {
namespace {

constexpr int64_t kTogether = 125;  // images at a time: what a step works on stays in the cache

// The first images of a source.
class FirstOf : public Source {
 public:
  FirstOf(std::shared_ptr<const Source> all, int64_t most)
      : all_(std::move(all)), size_(std::min(most, all_->size())) {}
  int64_t size() const override { return size_; }
  int64_t stride() const override { return all_->stride(); }
  Batch read(std::span<const int64_t> starts) const override { return all_->read(starts); }

 private:
  std::shared_ptr<const Source> all_;
  int64_t size_;
};

// A pixel's value for every input of the model, from one a channel.
at::Tensor per_pixel(const std::array<double, 3>& values, int64_t pixels) {
  const at::Tensor result = at::empty({3, pixels / 3}, at::kFloat);
  for (size_t channel = 0; channel < values.size(); ++channel)
    result[static_cast<int64_t>(channel)].fill_(values.at(channel));
  return result.view({-1});
}

// Logits of plain pixels, as `eval` computes them.
class Victim {
 public:
  Victim(const Model& model, const std::optional<ChannelStatistics>& standardised) : model_(model) {
    if (!standardised) return;
    mean_ = per_pixel(standardised->mean, model.options().layer_sizes.front());
    deviation_ = per_pixel(standardised->deviation, model.options().layer_sizes.front());
  }

  at::Tensor plain(const at::Tensor& inputs) const {
    return mean_.defined() ? inputs.mul(deviation_).add(mean_).clamp(0.0, 1.0) : inputs;
  }

  at::Tensor logits(const at::Tensor& images) const {
    Pass pass{.dtype = at::kFloat};
    return model_.forward(mean_.defined() ? images.sub(mean_).div(deviation_) : images, pass);
  }

 private:
  const Model& model_;
  at::Tensor mean_, deviation_;
};

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

// Unit vectors: for each image a cosine wave over the picture, low frequencies more often, in one channel. [N, D]
at::Tensor cosine_waves(int64_t count, int64_t pixels, const RandomKey& key) {
  const auto side_of = [](int64_t area) {
    const auto side = static_cast<int64_t>(std::lround(std::sqrt(static_cast<double>(area))));
    return side * side == area ? side : 0;
  };
  const int64_t channels = pixels % 3 == 0 && side_of(pixels / 3) > 0 ? 3 : 1;
  const int64_t side = side_of(pixels / channels);
  const int64_t rows = side > 0 ? side : 1;
  const int64_t columns = pixels / channels / rows;
  const at::Tensor draws = random_uniform({count, 3}, key, at::kDouble);
  const auto along = [&](int64_t size, int64_t which) {
    const at::Tensor frequency = draws.select(1, which).square().mul(static_cast<double>(size)).floor();
    const at::Tensor place = at::arange(size, draws.options()).add(0.5);
    return frequency.unsqueeze(1).mul(place).mul(std::numbers::pi / static_cast<double>(size)).cos();
  };
  const at::Tensor wave = along(rows, 0)
                              .to(at::kFloat)
                              .unsqueeze(2)
                              .mul(along(columns, 1).to(at::kFloat).unsqueeze(1));  // [N, R, C]
  const at::Tensor channel = draws.select(1, 2).mul(static_cast<double>(channels)).floor();
  const at::Tensor chosen = channel.unsqueeze(1).eq(at::arange(channels, draws.options()));
  const at::Tensor all = chosen.to(at::kFloat).view({count, channels, 1, 1}).mul(wave.unsqueeze(1));
  const at::Tensor flat = all.reshape({count, pixels});
  return flat.div(lengths(flat));
}

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
  Siege(const Victim& victim, at::Tensor images, at::Tensor labels, at::Tensor predicted, bool box)
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

  void allow(double epsilon) { epsilon_ = epsilon; }
  const at::Tensor& right() const { return right_; }
  const Found& by_gradient() const { return by_gradient_; }
  const Found& by_search() const { return by_search_; }

  Found by_both() const {
    const at::Tensor more = by_search_.surprise.gt(by_gradient_.surprise);
    return {by_gradient_.broken.logical_or(by_search_.broken),
            by_gradient_.changed.logical_or(by_search_.changed),
            at::where(more, by_search_.surprise, by_gradient_.surprise),
            at::where(more.unsqueeze(1), by_search_.worst, by_gradient_.worst)};
  }

  // A point of the sphere in each image's direction `away`.
  at::Tensor start(const at::Tensor& away) const {
    return inside(images_.add(away.mul(epsilon_).div(lengths(away).clamp_min(1e-30))), images_);
  }

  // Climbs from `start` along normalised gradients of the cross-entropy (0), or towards the class that is so many places behind
  // the right one where nothing is perturbed (1, 2 …). A step that has not helped four times in a row is halved, from the best
  // point again: each image finds its own.
  void climb(const at::Tensor& start, int64_t goal, int steps) {
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

  // Tries cosine waves of random frequency and channel, smaller and smaller, each both ways, on the images that still stand, and
  // keeps what brings another class nearer.
  void search(int queries, RandomKey key) {
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

 private:
  // The nearest point of the ball, a little inside for rounding's sake, and of the box.
  at::Tensor inside(const at::Tensor& x, const at::Tensor& images) const {
    const double rounding = 0x1p-23 * std::sqrt(static_cast<double>(x.size(1)));
    const double radius = std::max(epsilon_ * (1.0 - 1e-4) - rounding, 0.5 * epsilon_);
    const at::Tensor step = x.sub(images);
    const at::Tensor factor = lengths(step).clamp_min(1e-30).reciprocal().mul(radius).clamp_max(1.0);
    const at::Tensor result = step.mul_(factor).add_(images);
    return box_ ? result.clamp_(0.0, 1.0) : result;
  }

  // Takes note of what `x` shows. Distances are measured in float64, of those that show anything new.
  void see(const at::Tensor& x, const at::Tensor& logits, Found& found) const {
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

  const Victim& victim_;
  at::Tensor images_, labels_, predicted_;
  at::Tensor others_;  // [N, classes − 1], the likeliest first
  bool box_;
  double epsilon_ = 0.0;
  at::Tensor right_;
  Found by_gradient_, by_search_;
  at::Tensor best_margin_, best_;  // of the search
};

std::vector<double> epsilons_of(const AttackOptions& options) {
  const std::vector<double> usual{36.0 / 255, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0};
  for (size_t i = 0; i < options.epsilons.size(); ++i) {
    const double epsilon = options.epsilons[i];
    if (!(epsilon > 0.0 && std::isfinite(epsilon)) || (i > 0 && epsilon <= options.epsilons[i - 1]))
      throw InputError("attack",
                       fmt::format("epsilon = {}; they are positive numbers, each above the last", epsilon));
  }
  return options.epsilons.empty() ? usual : options.epsilons;
}

void check(const Model& model, const AttackOptions& options) {
  if (model.options().kind != "mlp")
    throw InputError(
        "attack",
        "attacks are on classifiers of images; for a model of text, bridle certify --predictions "
        "says which predictions cannot change");
  const auto at_least = [](const char* name, int64_t value, int64_t least) {
    if (value < least)
      throw InputError("attack", fmt::format("{} = {}; it is at least {}", name, value, least));
  };
  at_least("images", options.images, 1);
  at_least("restarts", options.restarts, 1);
  at_least("steps", options.steps, 1);
  at_least("queries", options.queries, 0);
  at_least("examples", options.examples, 0);
  if (options.standardised && model.options().layer_sizes.front() % 3 != 0)
    throw InputError("attack", "standardised pixels have three channels; this model's inputs have not");
}

// All that is done within one ε; each adversary goes on from its own best of the last.
void besiege(Siege& siege, const AttackOptions& options, double epsilon, RandomKey key) {
  siege.allow(epsilon);
  siege.climb(siege.by_gradient().worst, 0, options.steps);
  const std::vector<int64_t> shape = siege.by_gradient().worst.sizes().vec();
  for (int restart = 1; restart < options.restarts; ++restart, ++key.step)
    siege.climb(siege.start(random_normal(shape, key)), restart, options.steps);
  siege.search(options.queries, key);
}

void check_batch(const Batch& batch, const Model& model) {
  const int64_t classes = model.options().layer_sizes.back();
  const int64_t largest = batch.targets.max().item<int64_t>();
  if (classes < 2 || largest >= classes)
    throw InputError("attack",
                     fmt::format("the model has {} classes, and there is a label {}; an attack needs two "
                                 "classes and labels among them",
                                 classes, largest));
}

double share(const std::vector<at::Tensor>& parts) {
  const at::Tensor all = at::cat(parts);
  return all.to(at::kDouble).sum().item<double>() / static_cast<double>(all.numel());
}

// What is kept of every batch, for one ε.
struct Columns {
  std::vector<at::Tensor> stands, by_gradient, by_search, probability, broken, changed;
};

// Nothing that is certified may have been reached.
void check_promise(const at::Tensor& changed, const CertifiedPredictions& certified,
                   const AttackOptions& options, const std::vector<double>& epsilons) {
  const at::Tensor places = changed.logical_and(certified.stands).nonzero();
  if (places.size(0) == 0) return;
  const auto first = places[0];
  throw PromiseError(
      "attack",
      fmt::format(
          "{} certified predictions were changed, the first at epsilon {} on image {}, seed {}: please "
          "report this",
          places.size(0), epsilons.at(static_cast<size_t>(first[0].item<int64_t>())),
          first[1].item<int64_t>(), options.seed));
}

}  // namespace

AttackResult attack(const Model& model, const std::shared_ptr<const Source>& source,
                    const AttackOptions& options, const OnProgress& progress) {
  check(model, options);
  const std::vector<double> epsilons = epsilons_of(options);
  const auto first = std::make_shared<FirstOf>(source, options.images);
  const double smallest =
      options.standardised ? *std::ranges::min_element(options.standardised->deviation) : 1.0;
  const CertifiedPredictions certified = certify_predictions(
      model, first,
      {.epsilons = epsilons, .smallest_deviation = smallest, .order = {.batch_size = kTogether}});
  const Victim victim(model, options.standardised);
  const Evaluation batches(first, {.batch_size = kTogether});
  std::vector<Columns> columns(epsilons.size());
  std::vector<at::Tensor> right;
  std::vector<at::Tensor> probability;
  std::vector<std::vector<at::Tensor>> shown(1 + epsilons.size());
  for (int64_t b = 0; b < batches.size(); ++b) {
    const Batch batch = batches[b];
    check_batch(batch, model);
    const at::Tensor images = victim.plain(batch.inputs.reshape({batch.inputs.size(0), -1}));
    const int64_t examples = std::clamp<int64_t>(options.examples - b * kTogether, 0, images.size(0));
    Siege siege(victim, images, batch.targets, certified.predicted.narrow(0, b * kTogether, images.size(0)),
                options.box);
    right.push_back(siege.right());
    probability.push_back(siege.by_both().surprise.neg().exp());
    shown[0].push_back(images.narrow(0, 0, examples));
    for (size_t e = 0; e < epsilons.size(); ++e) {
      const auto number = static_cast<uint64_t>(b) * epsilons.size() + e;
      besiege(siege, options, epsilons[e],
              {.seed = options.seed, .stream = Stream::attack, .step = number << 20U});
      const Found both = siege.by_both();
      Columns& own = columns[e];
      own.stands.push_back(siege.right().logical_and(both.broken.logical_not()));
      own.by_gradient.push_back(siege.right().logical_and(siege.by_gradient().broken.logical_not()));
      own.by_search.push_back(siege.right().logical_and(siege.by_search().broken.logical_not()));
      own.probability.push_back(both.surprise.neg().exp());
      own.broken.push_back(both.broken);
      own.changed.push_back(both.changed);
      shown[e + 1].push_back(both.worst.narrow(0, 0, examples));
      report(progress, {.what = "attacking",
                        .done = static_cast<int64_t>(number) + 1,
                        .total = batches.size() * static_cast<int64_t>(epsilons.size()),
                        .unit = "rounds"});
    }
  }
  AttackResult result{.images = first->size(), .accuracy = share(right), .probability = share(probability)};
  std::vector<at::Tensor> broken;
  std::vector<at::Tensor> changed;
  std::vector<at::Tensor> examples;
  for (const auto& parts : shown) examples.push_back(at::cat(parts));
  for (size_t e = 0; e < epsilons.size(); ++e) {
    const Columns& own = columns[e];
    result.points.push_back({.epsilon = epsilons[e],
                             .accuracy = share(own.stands),
                             .accuracy_by_gradient = share(own.by_gradient),
                             .accuracy_by_search = share(own.by_search),
                             .probability = share(own.probability),
                             .certified_accuracy = certified.shares[e].certified_accuracy});
    broken.push_back(at::cat(own.broken));
    changed.push_back(at::cat(own.changed));
  }
  result.broken = at::stack(broken);
  result.examples = at::stack(examples);
  check_promise(at::stack(changed), certified, options, epsilons);
  return result;
}

}  // namespace bridle
