// Verified Cholesky. G = fl(WᵀW) has ‖G − WᵀW‖ ≤ e. If the Cholesky factorisation of tI − G − c₀I runs to its
// end in floating point, tI − G is positive semidefinite and σ(W)² ≤ t + e: docs/theory/spectral_norm.md,
// statement 1.
#include <ATen/ops/aminmax.h>
#include <ATen/ops/linalg_eigvalsh.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/rounding.h"
#include "kernels/gram_cholesky.h"
#include "linalg/lanczos.h"
#include "linalg/norm_bound.h"
#include "linalg/product.h"
#include "linalg/scaling.h"

namespace bridle {
namespace {

constexpr double kUnitRoundoff = 0x1p-53;
constexpr int kMostAttempts = 8;

struct GramFacts {
  Tensor matrix;     // the lower triangle of fl(WᵀW), on the smaller side, [n, n]
  double error;      // e: ‖fl(WᵀW) − WᵀW‖ is at most this
  double trace_low;  // not above the trace of `matrix`
  double largest;    // the largest diagonal entry
  double frobenius;  // not below ‖W‖_F²
};

Tensor mirrored(const Tensor& lower) {
  const Tensor whole = lower.add(lower.t());
  whole.diagonal().copy_(lower.diagonal());
  return whole;
}

GramFacts gram_facts(const Tensor& w) {
  const int64_t inner = std::max(w.size(0), w.size(1));
  const Tensor g = lower_gram(w);
  const Tensor diagonal = g.diagonal();
  const double trace = diagonal.sum().item<double>();
  // ‖W‖_F² from the diagonal: each entry is a sum of `inner` squares, good to γ_inner; two more for safety.
  const UpperBound frobenius = sum_bound(diagonal) * (1.0 + UpperBound(rounding_error(2 * inner + 4)));
  const UpperBound underflow = UpperBound(static_cast<double>(w.numel())) * UpperBound::scaled(1.0, -1020);
  const UpperBound error = UpperBound(rounding_error(inner + 2)) * frobenius + underflow;
  const double trace_error = mul_up(rounding_error(diagonal.numel() + 1), trace);
  return {g, error.to_double(), add_down(trace, -trace_error), diagonal.max().item<double>(),
          (frobenius + underflow).to_double()};
}

// True only if tI − G is proved positive semidefinite.
bool proves_at_most(const GramFacts& g, double t) {
  const int64_t n = g.matrix.size(0);
  if (!(t > 0.0) || !std::isfinite(t)) return false;
  const double gamma = rounding_error(n + 2);
  const double trace = add_up(mul_up(static_cast<double>(n), t), -g.trace_low);  // of tI − G
  const double c0 = add_up(mul_up(div_up(gamma, add_down(1.0, -gamma)), std::max(trace, 0.0)),
                           mul_up(2 * kUnitRoundoff, add_up(t, g.largest)));
  Tensor shifted = g.matrix.neg();
  shifted.diagonal().add_(t - c0);
  if (!cholesky_(shifted)) return false;
  // Some LAPACKs let a NaN pivot pass for success. Every entry of the factor enters the pivot of its row, so
  // finite and positive pivots speak for all of it.
  const auto [least, most] = at::aminmax(shifted.diagonal());
  return least.item<double>() > 0.0 && std::isfinite(most.item<double>());
}

std::optional<UpperBound> try_bound(const GramFacts& g, double eigenvalue, double excess) {
  const double t = (1 + excess) * eigenvalue;
  if (!proves_at_most(g, t)) return std::nullopt;
  return sqrt(UpperBound(t) + UpperBound(g.error));
}

// Not above limit² − error.
double square_below(double limit, double error) {
  const double safe = std::min(limit, 0x1p500);  // entries are below 2^201
  return add_down(mul_down(safe, safe), -error);
}

double all_eigenvalues_max(const Tensor& g) {
  try {
    return at::linalg_eigvalsh(g, "L").max().item<double>();
  } catch (const c10::Error&) {
    return std::nan("");
  }
}

}  // namespace

std::optional<UpperBound> norm_by_cholesky(const Tensor& scaled, double most_excess, double try_first) {
  const GramFacts g = gram_facts(scaled);
  if (g.largest == 0.0 && largest_entry(scaled) == 0.0) return UpperBound(0.0);
  const auto n = static_cast<double>(g.matrix.size(0));
  // Of the square of the norm, hence twice the share; the rest is for the Gram matrix's error.
  const double least = std::max(1e-10, 4 * n * n * kUnitRoundoff), most = std::max(least, 1.5 * most_excess);
  const bool given = try_first > 0.0 && std::isfinite(try_first);
  if (given && proves_at_most(g, square_below(try_first, g.error))) return UpperBound(try_first);
  const Tensor whole = mirrored(g.matrix);
  if (most_excess > 1e-6) {  // a quick guess, and one try at what the caller allows
    const EigenvalueEstimate quick = largest_eigenvalue_estimate(whole, most / 4);
    if (const auto norm = try_bound(g, quick.value, most)) return norm;
  }
  const EigenvalueEstimate guess = largest_eigenvalue_estimate(whole);
  const double likely = std::min(most, least + 2 * guess.uncertainty);
  for (const double excess : {least, likely, most}) {
    if (guess.uncertainty > excess) continue;  // the proof would fail
    if (const auto norm = try_bound(g, guess.value, excess)) return norm;
  }
  const double largest = all_eigenvalues_max(g.matrix);
  double excess = least;
  for (int attempt = 0; attempt < kMostAttempts; ++attempt, excess *= 2) {
    if (const auto norm = try_bound(g, largest, excess)) return norm;
  }
  return std::nullopt;
}

bool prove_by_cholesky(const Tensor& scaled, double limit) {
  if (!(limit >= 0.0)) return false;
  const GramFacts g = gram_facts(scaled);
  if (g.largest == 0.0 && largest_entry(scaled) == 0.0) return true;
  const double square = square_below(limit, 0.0);
  if (g.frobenius <= square) return true;  // σ ≤ ‖W‖_F
  return proves_at_most(g, square_below(limit, g.error));
}

}  // namespace bridle
