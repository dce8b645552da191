// The two inputs are x ± h·v, ‖v‖ = 1: one backward pass from ‖f(x + hv) − f(x − hv)‖ gives both the gradient
// of the stretch with respect to x and Jᵀu for the direction v. In this norm the best direction for a given u moves every
// token as far as it may, v_t = √d·(Jᵀu)_t/|(Jᵀu)_t|, which is power iteration; x ascends with a step of its own.
#include "bridle/certify.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/gather.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "bridle/error.h"
#include "certify/search_starts.h"
#include "kernels/exact_arithmetic.h"
#include "nn/cpu_model.h"
#include "nn/enclosure.h"

namespace bridle {
namespace {

enum class Measure { rms, largest_entry };

// Half the distance of the two inputs, relative to the domain, in the stages of the ascent. The first two smooth the
// function, the last is close to the derivative. ReLU has no second derivative to follow and needs a wide look: on small
// MLPs that found a stretch about a fifth larger.
constexpr double kClosest = 1e-4;
std::array<double, 3> stages(const Model& model) {
  return model.shape().input == InputKind::vectors ? std::array{0.9, 0.3, kClosest}
                                                   : std::array{0.1, 1e-2, kClosest};
}

// Tried for the result; below these float64's rounding would be seen.
constexpr std::array<double, 4> kFinal = {1e-2, 1e-3, 1e-4, 1e-5};

at::Tensor rms(const at::Tensor& x) { return x.square().mean(-1, /*keepdim=*/true).sqrt(); }

// The square of the size, largest over tokens, one a sequence: [S, …] → [S].
at::Tensor square_of(const at::Tensor& x, Measure measure) {
  const at::Tensor squares = measure == Measure::rms ? x.square().mean(-1) : x.square();
  return squares.view({x.size(0), -1}).amax(1);
}

// As a factor for [S, T, d] or [S, D].
at::Tensor per_start(const at::Tensor& values, const at::Tensor& like) {
  return like.dim() == 3 ? values.view({-1, 1, 1}) : values.view({-1, 1});
}

at::Tensor into_ball(const at::Tensor& x, double radius) {
  return x.mul(at::full({}, radius, x.options()).div(rms(x).clamp_min(1e-300)).clamp_max(1.0));
}

// Every token's gradient at RMS 1; where there is none, `otherwise`.
at::Tensor along_every_token(const at::Tensor& gradient, const at::Tensor& otherwise) {
  const at::Tensor sizes = rms(gradient);
  return at::where(sizes.gt(1e-290), gradient.div(sizes.clamp_min(1e-290)), otherwise);
}

// What is known where an ascent stands; all starts together.
struct Place {
  at::Tensor x = {}, v = {};                    // [S, T, d] or [S, D]
  at::Tensor stretch = {};                      // [S]
  at::Tensor x_gradient = {}, v_gradient = {};  // like x
};

class Ascent {
 public:
  Ascent(const Model& model, const SearchOptions& options, Measure measure)
      : model_(model), domain_(options.domain), measure_(measure) {}

  // A little inside, so that x ± hv is not outside by rounding.
  double radius(double h) const { return (1.0 - h) * (1.0 - 1e-13) * domain_; }

  Place look(const at::Tensor& x, const at::Tensor& v, double h) const {
    const at::Tensor step = v.mul(h * domain_);
    const at::Tensor inputs = at::cat({x.add(step), x.sub(step)}).requires_grad_(true);
    const at::Tensor square =
        square_of(difference(inputs), measure_).clamp_min(1e-280);  // √ has no slope at 0
    const at::Tensor stretch = square.sqrt().div(2.0 * h * domain_);
    const auto gradients = torch::autograd::grad({stretch.sum()}, {inputs})[0].chunk(2);
    return {x, v, stretch.detach(), gradients[0].add(gradients[1]), gradients[0].sub(gradients[1])};
  }

  // One stage at a fixed distance, with momentum: whatever stretches less than before is taken back and tried with a
  // smaller step and without momentum.
  template <class AfterRound>
  Place ascend(const at::Tensor& x, const at::Tensor& v, double h, int rounds, AfterRound after) const {
    Place best = look(into_ball(x, radius(h)), v, h);
    at::Tensor step = at::full({x.size(0)}, 0.1, x.options());
    at::Tensor uphill = at::zeros_like(x);
    for (int round = 0; round < rounds; ++round) {
      uphill = along_every_token(best.x_gradient, best.x_gradient).add(uphill, 0.9);
      const at::Tensor moved = best.x.add(uphill.mul(per_start(step, x)).mul(domain_));
      const Place next = look(into_ball(moved, radius(h)), along_every_token(best.v_gradient, best.v), h);
      const at::Tensor better = next.stretch.ge(best.stretch);
      step = at::where(better, step.mul(1.5).clamp_max(1.0), step.mul(0.4));
      uphill = uphill.mul(per_start(better, x));
      best = chosen(better, next, best);
      after();
    }
    return best;
  }

  // The ratio itself, from the inputs as they are, rounded down: what the float64 pass may be off at both is taken from the
  // outputs' distance, and the inputs' is rounded up. [S]; negative or NaN where nothing is left.
  at::Tensor ratio(const at::Tensor& first, const at::Tensor& second) const {
    constexpr double room = 0x1p-30;  // for a sum of 2^20 squares, two roots and a quotient, many times over
    const at::NoGradGuard no_gradients;
    const ExactArithmetic arithmetic;
    ErrorWalk walk;
    const LogitEnclosure all = model_.enclose(at::cat({first, second}), walk);
    const auto logits = all.logits.chunk(2);
    const auto errors = all.error[0].chunk(2);
    const int64_t starts = first.size(0);
    const at::Tensor off = errors[0].add(errors[1]).mul(1.0 + room).view({starts, -1}).amax(1);
    const at::Tensor apart = square_of(logits[0].sub(logits[1]), measure_).sqrt().mul(1.0 - room).sub(off);
    return apart.div(square_of(first.sub(second), Measure::rms).sqrt()).mul(1.0 - room);
  }

  bool finite(const at::Tensor& inputs) const {
    const at::NoGradGuard no_gradients;
    Pass pass{.dtype = at::kDouble};
    return model_.forward_from(inputs, pass).isfinite().all().item<bool>();
  }

 private:
  at::Tensor difference(const at::Tensor& inputs) const {
    Pass pass{.dtype = at::kDouble};
    const auto outputs = model_.forward_from(inputs, pass).chunk(2);
    return outputs[0].sub(outputs[1]);
  }

  static Place chosen(const at::Tensor& which, const Place& a, const Place& b) {
    const at::Tensor wide = per_start(which, a.x);
    return {at::where(wide, a.x, b.x), at::where(wide, a.v, b.v), at::where(which, a.stretch, b.stretch),
            at::where(wide, a.x_gradient, b.x_gradient), at::where(wide, a.v_gradient, b.v_gradient)};
  }

  const Model& model_;
  double domain_;
  Measure measure_;
};

struct Pair {
  double ratio = -1.0;
  at::Tensor first, second;
};

// The best start at the best distance.
Pair best_pair(const Ascent& ascent, const Place& place, double domain) {
  Pair best;
  for (const double h : kFinal) {
    const at::Tensor x = into_ball(place.x, ascent.radius(h));
    const at::Tensor step = place.v.mul(h * domain);
    const at::Tensor first = x.add(step);
    const at::Tensor second = x.sub(step);
    const at::Tensor ratios = ascent.ratio(first, second);
    if (!ascent.finite(first) || !ascent.finite(second))
      throw NumericError("search", "the model's outputs are not finite; no stretch can be observed");
    const at::Tensor known = ratios.nan_to_num(0.0, 0.0, 0.0).clamp_min(0.0);
    const int64_t start = known.argmax().item<int64_t>();
    const double ratio = known[start].item<double>();
    if (ratio > best.ratio)
      best = {ratio, first.narrow(0, start, 1).clone(), second.narrow(0, start, 1).clone()};
  }
  // By themselves, as anyone sees them: other threads may have added up in another order before.
  const double again = ascent.ratio(best.first, best.second).item<double>();
  best.ratio = std::isfinite(again) ? std::max(0.0, again) : 0.0;
  return best;
}

// Directions for single logits: start i moves the last token's logit whose row of the head is the i-th largest as much as
// it can; tokens that do not matter to it keep their v.
at::Tensor toward_largest_rows(const Model& model, const at::Tensor& x, const at::Tensor& v) {
  const auto is_head = [](const Param& param) { return param.role == Role::head; };
  const auto head = std::find_if(model.params().begin(), model.params().end(), is_head);
  Pass pass{.dtype = at::kDouble};
  const at::Tensor inputs = x.clone().requires_grad_(true);
  const at::Tensor outputs = model.forward_from(inputs, pass);
  const at::Tensor logits = x.dim() == 3 ? outputs.select(1, -1) : outputs;  // [S, V]
  const at::Tensor rows = (head != model.params().end() ? *head : model.params().front()).tensor;
  const at::Tensor largest =
      rows.detach().narrow(0, 0, logits.size(1)).square().sum(1).argsort(0, /*descending=*/true);
  const at::Tensor turns = at::arange(x.size(0), rows.options().dtype(at::kLong)).remainder(logits.size(1));
  const at::Tensor chosen = logits.gather(1, largest.index_select(0, turns).unsqueeze(1));
  return along_every_token(torch::autograd::grad({chosen.sum()}, {inputs})[0], v);
}

void check(const SearchOptions& options) {
  if (!(options.domain >= kLeastSearchDomain && std::isfinite(options.domain)))
    throw InputError("search",
                     fmt::format("domain must be at least {}, got {}", kLeastSearchDomain, options.domain));
  if (options.sequence_length < 1 || options.starts < 1 || options.rounds < 0)
    throw InputError(
        "search", fmt::format("{} tokens, {} starts, {} rounds; there must be at least one of the first two",
                              options.sequence_length, options.starts, options.rounds));
}

}  // namespace

ObservedStretch search_stretch(const Model& searched, const SearchOptions& options) {
  check(options);
  const CpuModel own(searched);
  const Model& model = *own;
  const at::AutoGradMode gradients(true);
  int64_t done = 0;
  const int64_t total = options.rounds + options.rounds / 3;
  const auto after = [&] {
    report(options.on_progress, {.what = "search", .done = ++done, .total = total, .unit = "rounds"});
  };
  const Ascent whole(model, options, Measure::rms);
  at::Tensor x = search_starts(model, options);
  at::Tensor v =
      random_normal(x.sizes(), {.seed = options.seed, .stream = Stream::search, .step = 1}, at::kDouble)
          .to(x.device());
  Place place{.x = x, .v = v.div(rms(v))};
  int left = options.rounds;
  for (const double h : stages(model)) {
    const int rounds = h == kClosest ? left : options.rounds / 4;
    place = whole.ascend(place.x, place.v, h, rounds, after);
    left -= rounds;
  }
  const Pair pair = best_pair(whole, place, options.domain);
  const Ascent single(model, options, Measure::largest_entry);
  const int64_t most = place.stretch.argmax().item<int64_t>();
  x = place.x.narrow(0, most, 1).expand_as(place.x).contiguous();
  v = toward_largest_rows(model, x, place.v);
  const Place logit = single.ascend(x, v, kClosest, options.rounds / 3, after);
  const Pair logit_pair = best_pair(single, logit, options.domain);
  return {pair.ratio, logit_pair.ratio, pair.first, pair.second, logit_pair.first, logit_pair.second};
}

}  // namespace bridle
