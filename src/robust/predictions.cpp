#include "robust/predictions.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/cdist.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "bridle/error.h"
#include "bridle/linalg.h"
#include "nn/activation.h"

namespace bridle {
namespace {

// Plain float64 arithmetic on top of proved norms: enlarged by this, far more than its own rounding.
constexpr double kSlack = 1.0 + 1e-9;
constexpr double kMostFloat = 1e38;   // beyond, float32 may overflow
constexpr int64_t kMostPairs = 4096;  // classes for which the distances of all pairs are kept

// γ·|w_i − w_j|, [C, C]; for a large vocabulary γ·(|w_i| + |w_j|) is made from the lengths [C] when it is needed.
struct Rows {
  at::Tensor pairs;
  at::Tensor lengths;

  explicit Rows(const Model& model) {
    const at::Tensor rows = model.logit_rows().to(at::kDouble);
    const double scale = std::abs(model.logit_scale()) * kSlack;
    lengths = rows.square().sum(1).sqrt().mul(scale);
    if (rows.size(0) <= kMostPairs) pairs = at::cdist(rows, rows, 2.0, /*compute_mode=*/2).mul(scale);
  }

  // For each prediction its row of distances, [N, C].
  at::Tensor from(const at::Tensor& predicted) const {
    if (pairs.defined()) return pairs.index_select(0, predicted);
    return lengths.index_select(0, predicted).unsqueeze(1).add(lengths);
  }
};

// How far the float32 logits of an MLP may be from the exact ones, for one image and for all within ε of it:
// `here` + ε·`growth`, in ℓ2.
class FloatError {
 public:
  explicit FloatError(const Model& model) : activation_(model.options().mlp_activation, 1.0) {
    const auto known = [](const std::optional<NormBound>& bound, const Param& weight) {
      if (bound) return bound->value.to_double() * kSlack;
      throw PromiseError("certify", fmt::format("no bound of {} can be established", weight.name));
    };
    for (const Param& param : model.params()) {
      const at::Tensor weight = param.tensor.detach().to(at::kDouble);
      layers_.push_back({weight, weight.abs(), known(spectral_norm_bound(weight), param),
                         known(spectral_norm_bound(weight.abs()), param),
                         weight.square().sum().sqrt().item<double>() * kSlack});
    }
    scale_ = std::abs(model.logit_scale());
  }

  struct Error {
    at::Tensor here;      // [N]
    double growth = 0.0;  // a unit of ε
  };

  // A layer's float32 product errs by γ_{n+3}·|W||x̂|, x̂ being what float32 has there: x, its error so far, and what ε
  // has become. The activation keeps errors; each entry of the result may also underflow, and what might overflow has no bound.
  Error of(const at::Tensor& images, double input_error) const {
    constexpr double u = 0x1p-24;
    at::Tensor x = images;
    constexpr double infinity = std::numeric_limits<double>::infinity();
    const double root = std::sqrt(static_cast<double>(images.size(1)));
    Error error{x.square().sum(1).sqrt().add(4.0 * root).mul(input_error), 0.0};
    double stretch = 1.0;
    for (size_t i = 0; i < layers_.size(); ++i) {
      const Layer& layer = layers_[i];
      const double n = static_cast<double>(layer.weight.size(1)) + 3.0;
      const double gamma = n * u / (1.0 - n * u);
      const at::Tensor sizes = at::linear(x.abs(), layer.absolute).square().sum(1).sqrt();
      const double tiny = n * static_cast<double>(layer.weight.size(0)) * std::numeric_limits<float>::min();
      error.here = error.here.mul(layer.norm + gamma * layer.frobenius).add(sizes, gamma).add(tiny);
      error.here = error.here.masked_fill(sizes.add(error.here).gt(kMostFloat), infinity);
      error.growth =
          error.growth * (layer.norm + gamma * layer.frobenius) + gamma * layer.absolute_norm * stretch;
      stretch *= layer.norm;
      x = at::linear(x, layer.weight);
      if (i + 1 < layers_.size()) x = activation_.forward(x);
    }
    // The final scale is rounded to float32 itself, and one more product.
    const at::Tensor size = x.square().sum(1).sqrt();
    const double tiny = static_cast<double>(x.size(1)) * std::numeric_limits<float>::min();
    error.here = error.here.add(size.add(error.here), 3.0 * u).mul(scale_ * kSlack).add(tiny);
    error.here = error.here.masked_fill(size.mul(scale_).add(error.here).gt(kMostFloat), infinity);
    error.growth = (error.growth * (1.0 + 3.0 * u) + 3.0 * u * stretch) * scale_ * kSlack;
    return error;
  }

 private:
  struct Layer {
    at::Tensor weight;
    at::Tensor absolute;
    double norm;
    double absolute_norm;
    double frobenius;
  };
  std::vector<Layer> layers_;
  Activation activation_;  // exact in float32, and it moves no two points apart
  double scale_ = 1.0;
};

// How much the input of the head moves, in ℓ2, for a perturbation of one unit.
double head_stretch(const Model& model, double epsilon, bool pixels) {
  const double trunk = certify(model, pixels ? 0.0 : epsilon).trunk.to_double();
  const auto width = static_cast<double>(model.logit_rows().size(1));
  const double units = pixels ? static_cast<double>(model.options().layer_sizes.front()) : 1.0;
  return trunk * std::sqrt(width / units) * kSlack;
}

std::vector<double> epsilons_of(const PredictionOptions& options, bool pixels) {
  for (const double epsilon : options.epsilons) {
    if (!(epsilon >= 0.0 && std::isfinite(epsilon)))
      throw InputError("certify", fmt::format("epsilon = {}; it cannot be negative", epsilon));
  }
  if (!options.epsilons.empty()) return options.epsilons;
  return pixels ? std::vector<double>{36.0 / 255, 72.0 / 255, 108.0 / 255, 0.5, 1.0}
                : std::vector<double>{0.001, 0.003, 0.01, 0.03, 0.1};
}

// True where every other logit stays below the predicted one: [N]. `moved` bounds the change of each margin, [N, C].
at::Tensor stands(const at::Tensor& logits, const at::Tensor& predicted, const at::Tensor& moved) {
  const at::Tensor place = predicted.unsqueeze(1);
  const at::Tensor left = logits.gather(1, place).sub(logits).sub(moved);
  return left.scatter(1, place, std::numeric_limits<double>::infinity()).gt(0.0).all(1);
}

}  // namespace

CertifiedPredictions certify_predictions(const Model& model, const std::shared_ptr<const Source>& source,
                                         const PredictionOptions& options, const OnProgress& progress) {
  const at::NoGradGuard no_gradients;
  const bool pixels = model.options().kind == "mlp";
  CertifiedPredictions result{.norm = pixels ? "l2" : "rms", .rounding = pixels ? "accounted" : "excluded"};
  const std::vector<double> epsilons = epsilons_of(options, pixels);
  std::vector<double> stretches;  // for pixels the same at every ε
  for (const double epsilon : epsilons)
    stretches.push_back(pixels && !stretches.empty() ? stretches.front()
                                                     : head_stretch(model, epsilon, pixels));
  // Standardised pixels have been rounded: a difference and a quotient, of numbers that are themselves rounded.
  const bool standardised = options.smallest_deviation != 1.0;
  const double input_error = standardised ? 8.0 * 0x1p-24 : 0.0;
  const Rows rows(model);
  const auto rounding = pixels ? std::make_unique<FloatError>(model) : nullptr;
  for (const double epsilon : epsilons) result.shares.push_back({.epsilon = epsilon});
  double right = 0.0;
  std::vector<at::Tensor> classes;
  std::vector<at::Tensor> parts;  // of `stands`
  const Evaluation batches(source, options.order);
  Pass pass{.dtype = at::kDouble};
  for (int64_t b = 0; b < batches.size(); ++b) {
    const Batch batch = batches[b];
    const at::Tensor inputs = model.embed(batch.inputs, pass);
    const at::Tensor all = model.forward_from(inputs, pass);
    const at::Tensor logits = all.reshape({-1, all.size(-1)});
    const at::Tensor targets = batch.targets.reshape({-1});
    const at::Tensor predicted = logits.argmax(1);
    const at::Tensor is_right = predicted.eq(targets);
    const at::Tensor distances = rows.from(predicted);
    const auto error =
        rounding ? rounding->of(inputs, input_error) : FloatError::Error{logits.abs().amax(1).mul(1e-9), 0.0};
    const at::Tensor part = at::empty({static_cast<int64_t>(epsilons.size()), targets.numel()}, at::kBool);
    for (size_t e = 0; e < epsilons.size(); ++e) {
      const double epsilon = epsilons[e] / options.smallest_deviation * (standardised ? 1.0 + 1e-6 : 1.0);
      const at::Tensor lost = error.here.add(error.growth * epsilon).mul(2.0).unsqueeze(1);
      const at::Tensor holds = stands(logits, predicted, distances.mul(stretches[e] * epsilon).add(lost));
      part[static_cast<int64_t>(e)].copy_(holds);
      result.shares[e].certified += holds.sum().item<double>();
      result.shares[e].certified_accuracy += holds.logical_and(is_right).sum().item<double>();
    }
    classes.push_back(predicted);
    parts.push_back(part);
    right += is_right.sum().item<double>();
    result.targets += targets.numel();
    report(progress,
           {.what = "certifying predictions", .done = b + 1, .total = batches.size(), .unit = "batches"});
  }
  result.predicted = at::cat(classes);
  result.stands = at::cat(parts, 1);
  const auto targets = static_cast<double>(result.targets);
  result.accuracy = right / targets;
  for (CertifiedShare& share : result.shares) {
    share.certified /= targets;
    share.certified_accuracy /= targets;
  }
  return result;
}

}  // namespace bridle
