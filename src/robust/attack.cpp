#include "bridle/attack.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/stack.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "bridle/error.h"
#include "bridle/predictions.h"
#include "bridle/random.h"
#include "robust/attack_batch.h"

namespace bridle {
namespace {

constexpr int64_t kBatchSize = 125;  // what a step works on stays in the cache

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

std::vector<double> epsilons_of(const AttackOptions& options) {
  const std::vector<double> usual{36.0 / 255, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0};
  for (size_t i = 0; i < options.epsilons.size(); ++i) {
    const double epsilon = options.epsilons[i];
    if (!(epsilon > 0.0 && std::isfinite(epsilon)) || (i > 0 && epsilon <= options.epsilons[i - 1]))
      throw InputError("attack",
                       fmt::format("epsilon must be positive and above the one before it, got {}", epsilon));
  }
  return options.epsilons.empty() ? usual : options.epsilons;
}

void check(const Model& model, const AttackOptions& options) {
  if (model.shape().input != InputKind::vectors)
    throw InputError("attack",
                     "the model must be an image classifier, got a model of text; bridle certify "
                     "--predictions says which of its predictions cannot change");
  const auto at_least = [](const char* name, int64_t value, int64_t least) {
    if (value < least)
      throw InputError("attack", fmt::format("{} must be at least {}, got {}", name, least, value));
  };
  at_least("images", options.images, 1);
  at_least("restarts", options.restarts, 1);
  at_least("steps", options.steps, 1);
  at_least("queries", options.queries, 0);
  at_least("examples", options.examples, 0);
  if (options.standardised && model.shape().size % 3 != 0)
    throw InputError("attack", fmt::format("standardised pixels must have three channels, got {} inputs",
                                           model.shape().size));
}

// Both attacks at one ε; each starts from its own worst perturbation at the last ε.
void attack_at(AttackBatch& batch, const AttackOptions& options, double epsilon, RandomKey key) {
  batch.set_epsilon(epsilon);
  const at::Tensor worst = batch.by_gradient().worst;
  batch.pgd(worst, 0, options.steps);
  for (int restart = 1; restart < options.restarts; ++restart, ++key.step)
    batch.pgd(batch.random_start(random_normal(worst.sizes(), key).to(worst.device())), restart,
              options.steps);
  batch.search(options.queries, key);
}

void check_batch(const Batch& batch, const Model& model) {
  const int64_t classes = model.shape().outputs;
  const int64_t largest = batch.targets.max().item<int64_t>();
  if (classes < 2 || largest >= classes)
    throw InputError("attack", fmt::format("the model must have two classes and more than the largest label, "
                                           "got {} classes and a label {}",
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
void check_promise(const at::Tensor& changed, const CertifiedFunction& certified,
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
  const CertifiedPredictions predictions = certify_predictions(
      model, first,
      {.epsilons = epsilons, .standardised = options.standardised, .order = {.batch_size = kBatchSize}});
  // The classifier under attack computes in float32.
  const CertifiedFunction& certified = predictions.of("float32");
  const Classifier classifier(model, options.standardised);
  const Evaluation batches(first, {.batch_size = kBatchSize});
  std::vector<Columns> columns(epsilons.size());
  std::vector<at::Tensor> correct;
  std::vector<at::Tensor> probability;
  std::vector<std::vector<at::Tensor>> shown(1 + epsilons.size());
  for (int64_t b = 0; b < batches.size(); ++b) {
    const Batch read = batches[b].to(model.device());
    check_batch(read, model);
    const at::Tensor images = classifier.plain(read.inputs.reshape({read.inputs.size(0), -1}));
    const int64_t examples = std::clamp<int64_t>(options.examples - b * kBatchSize, 0, images.size(0));
    AttackBatch batch(classifier, images, read.targets,
                      predictions.predicted.narrow(0, b * kBatchSize, images.size(0)).to(model.device()),
                      options.box);
    correct.push_back(batch.correct());
    probability.push_back(batch.by_both().nll.neg().exp());
    shown[0].push_back(images.narrow(0, 0, examples));
    for (size_t e = 0; e < epsilons.size(); ++e) {
      const auto number = static_cast<uint64_t>(b) * epsilons.size() + e;
      attack_at(batch, options, epsilons[e],
                {.seed = options.seed, .stream = Stream::attack, .step = number << 20U});
      const AttackFindings both = batch.by_both();
      Columns& own = columns[e];
      own.stands.push_back(batch.correct().logical_and(both.broken.logical_not()));
      own.by_gradient.push_back(batch.correct().logical_and(batch.by_gradient().broken.logical_not()));
      own.by_search.push_back(batch.correct().logical_and(batch.by_search().broken.logical_not()));
      own.probability.push_back(both.nll.neg().exp());
      own.broken.push_back(both.broken);
      own.changed.push_back(both.changed);
      shown[e + 1].push_back(both.worst.narrow(0, 0, examples));
      report(progress, {.what = "attacking",
                        .done = static_cast<int64_t>(number) + 1,
                        .total = batches.size() * static_cast<int64_t>(epsilons.size()),
                        .unit = "batches"});
    }
  }
  AttackResult result{.images = first->size(), .accuracy = share(correct), .probability = share(probability)};
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
  result.broken = at::stack(broken).cpu();
  result.examples = at::stack(examples).cpu();
  check_promise(at::stack(changed).cpu(), certified, options, epsilons);
  return result;
}

}  // namespace bridle
