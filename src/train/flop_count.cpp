#include "train/flop_count.h"

#include <ATen/ops/empty.h>

#include <algorithm>

#include "linalg/polynomials.h"
#include "optim/plan.h"
#include "train/train_state.h"

namespace bridle {
namespace {

struct Work {
  double flop = 0.0;
  double bfloat16 = 0.0;  // of these

  Work& operator+=(const Work& other) {
    flop += other.flop;
    bfloat16 += other.bfloat16;
    return *this;
  }
};

// Blocks [b, m, n] by their short and their long side.
struct Sides {
  explicit Sides(const Tensor& blocks)
      : count(static_cast<double>(blocks.size(0))),
        shorter(static_cast<double>(std::min(blocks.size(1), blocks.size(2)))),
        longer(static_cast<double>(std::max(blocks.size(1), blocks.size(2)))) {}
  double wide() const { return 2.0 * count * shorter * shorter * longer; }  // a product with the long side
  double small() const { return 2.0 * count * shorter * shorter * shorter; }
  // The Gram matrix in float64, and a Cholesky factorisation.
  double proof() const { return wide() + small() / 6.0; }

  double count, shorter, longer;
};

using Polynomials = std::vector<OddPolynomial>;
// How many products a list takes depends only on which coefficients are there.
constexpr OddPolynomial kCubic = {1.0, 1.0, 0.0};
constexpr OddPolynomial kQuintic = {2.0, 1.0, 1.0};

Work polynomial_work(const Tensor& blocks, const Polynomials& list, at::ScalarType products) {
  const ProductCounts counts = count_products(blocks, list, products);
  const Sides sides(blocks);
  const double wide = counts.wide * sides.wide(), small = counts.small * sides.small();
  if (products != at::kBFloat16) return {wide + small, 0.0};
  return {wide + small, wide + (counts.in_gram_space ? 0.0 : small)};
}

// By the sign formula, `moves` times: the sign of W and its overlap with W; then each time the sign of a small matrix in
// the weight's own precision, and the product that moves the values.
Work clip_work(const Tensor& blocks, int moves, at::ScalarType products) {
  const Polynomials sign(8, kQuintic);
  Work work = polynomial_work(blocks, sign, products);
  const double wide = (1 + moves) * Sides(blocks).wide();
  work += {wide, products == at::kBFloat16 ? wide : 0.0};
  const int64_t side = std::min(blocks.size(1), blocks.size(2));
  const Tensor square = at::empty({blocks.size(0), side, side}, at::kMeta);
  for (int i = 0; i < moves; ++i) work += polynomial_work(square, sign, blocks.scalar_type());
  return work;
}

Work constraint_work(const Tensor& blocks, const ConstraintOptions& options) {
  const std::string name = make_constraint(options)->name();
  const at::ScalarType products = options.product_dtype.value_or(blocks.scalar_type());
  if (name == "soft_cap") return polynomial_work(blocks, {{1.0, -1.0, 0.0}, {1.0, 1.0, 0.0}}, products);
  if (name == "parseval") return polynomial_work(blocks, {kCubic}, products);
  if (name == "hard_cap_polynomial") return polynomial_work(blocks, Polynomials(4, kQuintic), products);
  if (name == "stiefel") return polynomial_work(blocks, Polynomials(6, kQuintic), products);
  if (name == "hard_cap" || name == "clipped_weight_decay") return clip_work(blocks, 1, products);
  if (name == "clip") return clip_work(blocks, 2, products);
  if (name == "normalize") return {Sides(blocks).proof(), 0.0};
  if (name == "hammer" || name == "spectral_weight_decay" || name == "normalize_estimate")
    return {4.0 * static_cast<double>(blocks.numel()) * options.power_rounds, 0.0};
  return {};
}

Work muon_work(const Param& param, const OptimizerOptions& options) {
  if (plan_steps(param, 1.0, options).rule != UpdateRule::muon) return {};
  const auto list = polynomials(options.ns_coefficients);
  return polynomial_work(param.block_view(), {list.begin(), list.end()},
                         options.product_dtype.value_or(param.tensor.scalar_type()));
}

// As ConstraintSet decides it: with a budget every cap, else those that the method promises.
bool is_proved(const Param& param, const RunOptions& options) {
  const ConstraintSettings& settings = options.constraint;
  if (settings.lipschitz != 0.0) return true;
  const auto constraint = make_constraint(settings.options);
  if (!constraint->uses_cap()) return false;
  const StepInfo step{options.optimizer.lr, options.optimizer.weight_decay,
                      plan_steps(param, 1.0, options.optimizer).update_bound};
  const auto norm = constraint->guarantee(param, settings.sigma_max, step).norm;
  return norm && *norm <= settings.sigma_max;
}

}  // namespace

FlopCount flop_count(const RunOptions& options, const Model& model, const std::vector<Param>& params) {
  const ModelFlop each = model.flop(batch_shape(options, model.shape().input).length);
  const auto examples = static_cast<double>(examples_per_step(options, model.shape().input));
  FlopCount count{.forward = examples * each.forward, .backward = examples * each.backward};
  if (options.training.precision == Precision::bfloat16) count.bfloat16 = count.forward + count.backward;
  for (const Param& param : params) {
    if (!is_matrix(param.role)) continue;
    const Work muon = muon_work(param, options.optimizer);
    const Work constraint = constraint_work(param.block_view(), options.constraint.options);
    count.optimizer += muon.flop;
    count.constraint += constraint.flop;
    count.bfloat16 += muon.bfloat16 + constraint.bfloat16;
    if (is_proved(param, options))
      count.proof += Sides(param.block_view()).proof() / static_cast<double>(options.constraint.prove_every);
  }
  return count;
}

}  // namespace bridle
