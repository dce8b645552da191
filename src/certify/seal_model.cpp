#include "certify/seal_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "bridle/constraint.h"
#include "bridle/error.h"
#include "certify/cap_norms.h"

namespace bridle {
namespace {

constexpr double kLeastNorm = 1e-30;  // of a weight that is zero: caps are positive

// Tables keep their rows: the domain is not for sale.
std::vector<double> scaled_caps(const std::vector<Param>& params, const std::vector<double>& norms,
                                double factor) {
  std::vector<double> caps = norms;
  for (size_t i = 0; i < caps.size(); ++i)
    if (is_matrix(params[i].role)) caps[i] *= factor;
  return caps;
}

}  // namespace

std::vector<double> caps_within(const Model& model, const std::vector<Param>& params, double lipschitz) {
  if (!(lipschitz > 0.0 && std::isfinite(lipschitz)))
    throw InputError("seal", fmt::format("the bound must be positive, got {}", lipschitz));
  std::vector<double> norms;
  for (const Param& param : params) {
    if (!is_matrix(param.role) && !is_table(param.role)) {
      norms.push_back(0.0);
      continue;
    }
    const auto norm = norm_bound(param);
    if (!norm) throw PromiseError("seal", fmt::format("{} holds NaN or infinity", param.name));
    norms.push_back(std::max(kLeastNorm, (*norm * (1.0 + 1e-9)).to_double()));
  }
  const auto bound = [&](double factor) {
    const std::vector<double> caps = scaled_caps(params, norms, factor);
    CapNorms cap_norms(params, caps);
    Walk walk(cap_norms);
    return model.bound(model.input_bound(cap_norms), walk).lipschitz;
  };
  const UpperBound limit = lipschitz;
  double low = 0x1p-40;
  double high = 1.0;
  if (bound(high) <= limit) return norms;
  if (bound(low) > limit)
    throw InputError("seal", fmt::format("a bound of {} cannot be reached by scaling; {} could be", lipschitz,
                                         bound(low).to_string()));
  for (int i = 0; i < 60; ++i) {
    const double middle = 0.5 * (low + high);
    (bound(middle) <= limit ? low : high) = middle;
  }
  return scaled_caps(params, norms, low);
}

std::vector<std::string> seal_model_(const std::vector<Param>& params, const std::vector<double>& caps) {
  std::vector<std::string> changed;
  for (size_t i = 0; i < params.size(); ++i)
    if (caps.at(i) > 0.0 && seal_(params[i], caps[i])) changed.push_back(params[i].name);
  return changed;
}

}  // namespace bridle
