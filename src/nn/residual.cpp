#include "nn/residual.h"

#include <ATen/ops/full.h>
#include <ATen/ops/lerp.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

namespace bridle {

bool is_convex(ResidualKind kind) {
  switch (kind) {
    case ResidualKind::convex:
      return true;
    case ResidualKind::plain:
      return false;
    case ResidualKind::quadrature:  // nn/quadrature_feed_forward.h
      break;
  }
  throw std::logic_error("a residual without a formula");
}

namespace {

// Entries of a learned α.
int64_t entries_of(LearnedAlpha alpha, int64_t size) {
  switch (alpha) {
    case LearnedAlpha::none:
      return 0;
    case LearnedAlpha::scalar:
      return 1;
    case LearnedAlpha::vector:
      return size;
  }
  throw std::logic_error("a learned alpha without a size");
}

}  // namespace

Residual::Residual(const TransformerOptions& options, Weights& weights, const std::string& name, double alpha)
    : convex_(is_convex(options.residual)), alpha_(alpha) {
  const int64_t entries = entries_of(options.learned_alpha, options.hidden_size);
  if (entries > 0) learned_ = weights.vector(name, Role::residual_weight, {entries}, alpha);
}

at::Tensor Residual::forward(const at::Tensor& x, const at::Tensor& branch) const {
  if (!learned_) return convex_ ? at::lerp(x, branch, alpha_) : x.add(branch);
  const at::Tensor alpha = learned_->tensor.to(x.scalar_type());
  return convex_ ? at::lerp(x, branch, alpha) : x.add(branch.mul(alpha));
}

FusedNumber Residual::keep(FusedProgram& program) const {
  if (!convex_) return {1.0F};
  return learned_ ? program.number(*learned_, -1.0F, 1.0F) : FusedNumber{static_cast<float>(1.0 - alpha_)};
}

FusedNumber Residual::share(FusedProgram& program) const {
  if (learned_) return program.number(*learned_);
  return {convex_ ? static_cast<float>(alpha_) : 1.0F};
}

Residual::Largest Residual::largest(const NormSource::Entries& alpha) const {
  const bool counts = convex_ || learned_;
  const double share = counts ? std::max(std::abs(alpha.least), std::abs(alpha.largest)) : 1.0;
  return {convex_ ? std::max(std::abs(1.0 - alpha.least), std::abs(1.0 - alpha.largest)) : 1.0, share};
}

// Statement 7 of docs/theory/modules.md.
Bound Residual::bound(const Bound& x, const Bound& branch, Walk& walk) const {
  const bool is_vector = learned_ && learned_->tensor.numel() > 1;
  std::optional<NormSource::Entries> alpha = NormSource::Entries{alpha_, alpha_};
  if (learned_) alpha = walk.norms.entries(*learned_);
  if (!alpha && convex_ && !is_vector)  // somewhere in [0, 1]: one of the two ends is the worst
    return {.activation = max(x.activation, branch.activation),
            .lipschitz = max(x.lipschitz, branch.lipschitz)};
  const NormSource::Entries entries = alpha.value_or(NormSource::Entries{0.0, 1.0});
  const Largest most = largest(entries);
  // 1 − α may be rounded by the subtraction: the next number up is not below it.
  const UpperBound rest =
      convex_ ? std::nextafter(most.rest, std::numeric_limits<double>::infinity()) : most.rest;
  const UpperBound share = most.share;
  const bool mixes =
      convex_ && entries.least < entries.largest && entries.least >= 0.0 && entries.largest <= 1.0;
  const auto mixed = [&](const UpperBound& a, const UpperBound& b) {
    const UpperBound sum = rest * a + share * b;
    return mixes ? min(sum, sqrt(rest * a * a + share * b * b)) : sum;
  };
  return {.activation = mixed(x.activation, branch.activation),
          .lipschitz = mixed(x.lipschitz, branch.lipschitz)};
}

// convex: a + α(b − a), or b − (b − a)(1 − α) for α from ½: α is cast, and a difference, a product and a sum are rounded. x + α·f: α
// is cast, and a product is rounded.
Enclosure Residual::enclose(const Enclosure& x, const Enclosure& branch, const ErrorWalk& walk) const {
  at::Tensor alpha = at::full({1}, alpha_, at::kDouble);
  if (learned_) alpha = learned_->tensor.detach().to(at::kDouble);
  const auto [rest, share] = largest({alpha.min().item<double>(), alpha.max().item<double>()});
  double part = convex_ || learned_ ? share : 0.0;
  if (convex_ && share >= 0.5) part = std::max({1.0, share, rest});
  const at::Tensor moved = walk.size(x).add(walk.size(branch)).mul(walk.unit(x.error.dim())).mul(4.0 * part);
  const double root = std::sqrt(static_cast<double>(x.values.size(-1)));
  const at::Tensor flushed = walk.least(x.error.dim()).mul(4.0 * root * std::max({1.0, share, rest}));
  at::Tensor error = raised(x.error.mul(rest).add(branch.error, share).add(moved).add(flushed));
  if (convex_ || learned_) {  // the entries that are nearest to zero and farthest from it
    const at::Tensor sizes = alpha.abs();
    const at::Tensor counted = sizes.masked_select(sizes.gt(0.0));
    if (counted.numel() > 0)
      error = error.add(walk.scalar_error(counted.min().item<double>(), error.dim()))
                  .add(walk.scalar_error(counted.max().item<double>(), error.dim()));
  }
  return walk.stored(forward(x.values, branch.values), raised(x.reach.mul(rest).add(branch.reach, share)),
                     error);
}

}  // namespace bridle
