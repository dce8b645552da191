#include "bridle/predictions.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/cdist.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "bridle/error.h"
#include "data/batch_parts.h"
#include "kernels/exact_arithmetic.h"
#include "kernels/team.h"
#include "nn/cpu_model.h"
#include "nn/enclosure.h"

namespace bridle {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr int64_t kMostPairs = 4096;  // classes for which the distances of all pairs are kept

// γ·|w_i − w_j|, [C, C]; for a large vocabulary γ·(|w_i| + |w_j|) is made from the lengths [C] when it is needed.
struct Rows {
  at::Tensor pairs;
  at::Tensor lengths;

  explicit Rows(const Model& model) {
    const at::Tensor rows = model.logit_rows().to(at::kDouble);
    const double scale = std::abs(model.logit_scale());
    lengths = raised(row_lengths(rows).mul(scale));
    if (rows.size(0) <= kMostPairs) pairs = raised(at::cdist(rows, rows, 2.0, /*compute_mode=*/2).mul(scale));
  }

  // For each prediction its row of distances, [N, C].
  at::Tensor from(const at::Tensor& predicted) const {
    if (pairs.defined()) return pairs.index_select(0, predicted);
    return lengths.index_select(0, predicted).unsqueeze(1).add(lengths);
  }
};

std::vector<double> epsilons_of(const PredictionOptions& options, bool pixels) {
  for (const double epsilon : options.epsilons) {
    if (!(epsilon >= 0.0 && std::isfinite(epsilon)))
      throw InputError("certify", fmt::format("epsilon must not be negative, got {}", epsilon));
  }
  if (!options.epsilons.empty()) return options.epsilons;
  return pixels ? std::vector<double>{36.0 / 255, 72.0 / 255, 108.0 / 255, 0.5, 1.0}
                : std::vector<double>{0.001, 0.003, 0.01, 0.03, 0.1};
}

std::vector<Arithmetic> programs() {
  std::vector<Arithmetic> list{Arithmetic::float32()};
  if (bfloat16_layers_add_in_float32()) list.push_back(Arithmetic::bfloat16());
  return list;
}

// A pixel was rounded, and so were mean and deviation, their difference and the quotient: at most 8u(|x| + |mean|/deviation) a
// pixel, in float32.
ErrorWalk::InputError error_of(const ChannelStatistics& statistics, int64_t pixels) {
  constexpr double unit = 8.0 * 0x1p-24;
  double ratio = 0.0;
  for (size_t channel = 0; channel < statistics.mean.size(); ++channel)
    ratio = std::max(ratio, std::abs(statistics.mean.at(channel)) / statistics.deviation.at(channel));
  return {unit, 1.01 * unit * ratio * std::sqrt(static_cast<double>(pixels))};
}

// Which inputs the statement is about, in the units of the model's input.
struct Perturbation {
  double epsilon = 0.0;                       // as it was asked for
  double radius = 0.0;                        // Euclidean, of every token or of all pixels
  std::map<std::string, double> limits = {};  // of what it becomes after each layer, by the global bound
};

Perturbation perturbation(const Model& model, const CertifiedBound& bound, double epsilon,
                          const PredictionOptions& options, bool pixels) {
  constexpr double up = 1.0 + 1e-6;
  const auto inputs = static_cast<double>(model.shape().size);
  double smallest = 1.0;  // deviation
  if (options.standardised) smallest = *std::ranges::min_element(options.standardised->deviation) / up;
  const double rms = pixels ? epsilon / smallest / std::sqrt(inputs) * up : epsilon;
  Perturbation result{epsilon, rms * std::sqrt(inputs) * up};
  for (size_t i = 0; i < bound.layers.size(); ++i) {
    const auto width = static_cast<double>(bound.layers[i].width);
    const double limit = bound.layers[i].lipschitz.value * rms * std::sqrt(width) * up;
    if (std::isfinite(limit)) result.limits[bound.layers[i].name] = limit;
  }
  return result;
}

// Counts for every function and ε what stands.
class Tally {
 public:
  Tally() = default;
  Tally(const std::vector<std::string>& functions, const std::vector<double>& epsilons) {
    for (const std::string& name : functions) {
      functions_.push_back({.function = name});
      for (const double epsilon : epsilons) functions_.back().shares.push_back({.epsilon = epsilon});
    }
    parts_.resize(functions.size());
  }

  // `holds`: [ε, N] of one function.
  void add(size_t function, const at::Tensor& holds, const at::Tensor& is_right) {
    for (size_t e = 0; e < functions_[function].shares.size(); ++e) {
      const at::Tensor own = holds[static_cast<int64_t>(e)];
      functions_[function].shares[e].certified += own.sum().item<double>();
      functions_[function].shares[e].certified_accuracy += own.logical_and(is_right).sum().item<double>();
    }
    parts_[function].push_back(holds);
  }

  std::vector<CertifiedFunction> shares_of(double targets) {
    for (size_t f = 0; f < functions_.size(); ++f) {
      functions_[f].stands = at::cat(parts_[f], 1);
      for (CertifiedShare& share : functions_[f].shares) {
        share.certified /= targets;
        share.certified_accuracy /= targets;
      }
    }
    return functions_;
  }

 private:
  std::vector<CertifiedFunction> functions_;
  std::vector<std::vector<at::Tensor>> parts_;
};

// What is left of the smallest margin once the head's input has moved by `reach`, [N].
at::Tensor margin_left(const at::Tensor& logits, const at::Tensor& predicted, const at::Tensor& distances,
                       const at::Tensor& reach) {
  const at::Tensor place = predicted.unsqueeze(1);
  const at::Tensor moved = raised(distances.mul(reach.unsqueeze(1)));
  const at::Tensor left = logits.gather(1, place).sub(logits).sub(moved);
  return left.scatter(1, place, kInfinity).amin(1);
}

// Goes through batches with one walk: its cases are every program at every ε, after the float64 pass itself.
class Certifier {
 public:
  Certifier(const Model& model, const PredictionOptions& options, bool pixels)
      : model_(model), rows_(model), programs_(programs()), epsilons_(epsilons_of(options, pixels)) {
    std::vector<Perturbation> perturbations;
    std::optional<CertifiedBound> bound;  // of pixels the same at every ε
    for (const double epsilon : epsilons_) {
      if (!bound || !pixels) bound = certify(model, pixels ? 0.0 : epsilon);
      perturbations.push_back(perturbation(model, *bound, epsilon, options, pixels));
    }
    std::vector<ProgramCase> cases;
    std::vector<std::map<std::string, double>> limits{{}};
    std::vector<std::string> names{"exact"};
    for (const Arithmetic& program : programs_) {
      names.emplace_back(program.name);
      for (const Perturbation& own : perturbations) {
        cases.push_back({program, own.radius});
        limits.push_back(own.limits);
      }
    }
    walk_ = ErrorWalk(cases);
    walk_.reach_limits = limits;
    if (options.standardised) walk_.input_error = error_of(*options.standardised, model.shape().size);
    tally_ = Tally(names, epsilons_);
  }

  // Windows go apart to threads: an operation of one window is too small to share. Each part has its own walk with the norms that
  // the first has measured, and results are counted in the order of the data.
  void add(const Batch& batch) {
    if (batch.targets.is_floating_point())
      throw InputError("certify", "--predictions is about classes, and this data set's targets are numbers");
    const int64_t count = std::max<int64_t>(16, at::get_num_threads());
    const std::vector<Batch> parts = batch_parts(batch, count);
    std::vector<Judged> judged(parts.size());
    size_t first = 0;
    if (!has_norms_) judged[first++] = judge(parts.front(), walk_);
    has_norms_ = true;
    each_apart(std::vector<int64_t>(parts.size() - first, 1), [&](size_t i) {
      const ExactArithmetic arithmetic;
      ErrorWalk own = walk_;
      judged[first + i] = judge(parts[first + i], own);
    });
    for (const Judged& part : judged) {
      for (size_t f = 0; f < part.stands.size(); ++f) tally_.add(f, part.stands[f], part.is_right);
      predicted_.push_back(part.predicted);
      right_ += part.is_right.sum().item<double>();
    }
  }

  CertifiedPredictions result(const std::string& norm) {
    CertifiedPredictions result{.norm = norm, .predicted = at::cat(predicted_)};
    result.targets = result.predicted.numel();
    result.accuracy = right_ / static_cast<double>(result.targets);
    result.functions = tally_.shares_of(static_cast<double>(result.targets));
    return result;
  }

 private:
  // Of one part of a batch: predictions, whether they are right, and of every function whether they stand, [ε, N].
  struct Judged {
    at::Tensor predicted, is_right;
    std::vector<at::Tensor> stands;
  };

  Judged judge(const Batch& batch, ErrorWalk& walk) const {
    Pass pass{.dtype = at::kDouble};
    const at::Tensor embedded = model_.embed(batch.inputs, pass);
    walk.begins = pass.begins;
    const LogitEnclosure all = model_.enclose(embedded, walk);
    const at::Tensor logits = all.logits.reshape({-1, all.logits.size(-1)});
    const auto flat = [](const at::Tensor& t) { return t.reshape({t.size(0), -1}); };  // [K, N]
    const at::Tensor reach = flat(all.reach), input = flat(all.input_error), head = flat(all.own_error);
    Judged judged{.predicted = logits.argmax(1), .is_right = {}, .stands = {}};
    judged.is_right = judged.predicted.eq(batch.targets.reshape({-1}));
    const at::Tensor distances = rows_.from(judged.predicted);
    // Each difference of two logits is rounded once more here.
    const at::Tensor subtraction = logits.abs().amax(1).mul(0x1p-50), none = at::zeros_like(subtraction);
    const auto count = static_cast<int64_t>(epsilons_.size());
    // Whether margins survive what the head's input moves, at ε and by the errors of the float64 pass and of the program.
    const auto holds = [&](int64_t of_case, const at::Tensor& input_off, const at::Tensor& head_off) {
      const at::Tensor moved = raised(reach[of_case].add(input[0]).add(input_off));
      const at::Tensor lost = raised(head[0].add(head_off).mul(2.0).add(subtraction));
      return margin_left(logits, judged.predicted, distances, moved).gt(lost);
    };
    for (size_t f = 0; f <= programs_.size(); ++f) {  // 0: the exact network
      std::vector<at::Tensor> stands;
      for (int64_t e = 0; e < count; ++e) {
        const int64_t of_case = 1 + e + (f == 0 ? 0 : (static_cast<int64_t>(f) - 1) * count);
        stands.push_back(holds(of_case, f == 0 ? none : input[of_case], f == 0 ? none : head[of_case]));
      }
      judged.stands.push_back(at::stack(stands));
    }
    return judged;
  }

  const Model& model_;
  Rows rows_;
  std::vector<Arithmetic> programs_;
  std::vector<double> epsilons_;
  ErrorWalk walk_;
  bool has_norms_ = false;  // walk_'s, of every weight
  Tally tally_;
  std::vector<at::Tensor> predicted_;
  double right_ = 0.0;
};

// A batch's float64 logits stay below 256 MiB, whatever the vocabulary.
EvaluationOptions small_enough(EvaluationOptions order, const ModelShape& shape) {
  constexpr int64_t most = int64_t{1} << 25;
  order.batch_size = std::min(order.batch_size, std::max<int64_t>(1, most / shape.outputs / shape.longest));
  return order;
}

}  // namespace

const CertifiedFunction& CertifiedPredictions::of(const std::string& function) const {
  const auto found =
      std::ranges::find_if(functions, [&](const CertifiedFunction& f) { return f.function == function; });
  if (found == functions.end())
    throw InputError("certify", fmt::format("no predictions of '{}' were certified", function));
  return *found;
}

CertifiedPredictions certify_predictions(const Model& model, const std::shared_ptr<const Source>& source,
                                         const PredictionOptions& options, const OnProgress& progress) {
  const at::NoGradGuard no_gradients;
  const ExactArithmetic arithmetic;
  const bool pixels = model.shape().input == InputKind::vectors;
  const CpuModel own(model);
  Certifier certifier(*own, options, pixels);
  const Evaluation batches(source, small_enough(options.order, model.shape()));
  for (int64_t b = 0; b < batches.size(); ++b) {
    certifier.add(batches[b].to(at::kCPU));
    report(progress,
           {.what = "certifying predictions", .done = b + 1, .total = batches.size(), .unit = "batches"});
  }
  return certifier.result(pixels ? "l2" : "rms");
}

}  // namespace bridle
