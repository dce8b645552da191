#include "robust/certified_radius.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/rounding.h"
#include "bridle/error.h"
#include "kernels/exact_arithmetic.h"
#include "nn/cpu_model.h"
#include "nn/enclosure.h"
#include "nn/linear.h"

namespace bridle {
namespace {

void check(const Model& model, const at::Tensor& vector) {
  const std::optional<ModelOptions> options = model.options();
  const auto* mlp = options ? std::get_if<MlpOptions>(&*options) : nullptr;
  if (mlp == nullptr)
    throw InputError("radius", "a certified radius of a vector is for MLPs, and this model is another");
  if (mlp->activation == ActivationKind::relu_squared)
    throw InputError(
        "radius", "relu_squared stretches the more the farther inputs lie, so that no radius is certified");
  if (model.shape().outputs < 2)
    throw InputError("radius", "a class needs another beside it, and there is one output");
  if (vector.dim() != 1 || vector.numel() != model.shape().size)
    throw InputError("radius", "the vector must have as many entries as the model has inputs");
}

}  // namespace

// f_i − f_j moves by at most γ|w_i − w_j| times what the head's input moves, and that by at most T·√(d/n) times what the
// vector does: docs/theory/predictions.md.
CertifiedRadius certified_radius(const Model& given, const CertifiedBound& bound, const at::Tensor& vector) {
  check(given, vector);
  const at::NoGradGuard no_gradients;
  const ExactArithmetic arithmetic;
  const CpuModel model(given);
  ErrorWalk walk;
  Pass pass{.dtype = at::kDouble};
  const LogitEnclosure all = model->enclose(model->embed(vector.cpu().unsqueeze(0), pass), walk);
  const at::Tensor logits = all.logits.reshape({-1});
  const at::Tensor rows = model->logit_rows().to(at::kDouble);
  CertifiedRadius result{.predicted = logits.argmax().item<int64_t>()};
  const at::Tensor apart = raised(row_lengths(rows.sub(rows[result.predicted])));
  const double error = all.error.max().item<double>(), own = logits[result.predicted].item<double>();
  const UpperBound to_head =
      bound.trunk * root_of_ratio(rows.size(1), given.shape().size) * std::abs(given.logit_scale());
  double least = std::numeric_limits<double>::infinity();
  for (int64_t j = 0; j < logits.numel(); ++j) {
    if (j == result.predicted) continue;
    const double margin = add_down(add_down(own, -logits[j].item<double>()), -mul_up(2.0, error));
    const double gain = (to_head * UpperBound(apart[j].item<double>())).to_double();
    if (!(margin > 0.0)) return result;  // also where the error is not known
    if (gain > 0.0) least = std::min(least, div_down(margin, gain));
  }
  if (!std::isfinite(least)) least = std::numeric_limits<double>::max();  // the logits are constant
  result.euclidean = least;
  result.largest = div_down(least, sqrt_up(static_cast<double>(given.shape().size)));
  return result;
}

}  // namespace bridle
