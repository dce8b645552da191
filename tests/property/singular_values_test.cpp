// Over 2,000 random matrices, 1×1 to 1024×4096, seven kinds of spectrum, three precisions: every constraint
// does to the singular values what its formula says, held against an SVD in float64, and the verified norm is
// never below it.
#include <ATen/ops/from_blob.h>
#include <ATen/ops/linalg_svd.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/outer.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "bridle/constraint.h"
#include "bridle/linalg.h"
#include "bridle/random.h"
#include "constraint/clip_by_sign.h"
#include "constraint/soft_cap.h"
#include "support.h"

namespace bridle {
namespace {

constexpr int kShards = 16;
constexpr int kMatrices = 2000;

// ---- the matrices
// ------------------------------------------------------------------------------------------------

struct Case {
  int64_t m, n;
  int kind;
  at::ScalarType dtype;
  uint64_t seed;

  std::string name() const {
    return fmt::format("{}x{} {} {} #{}", m, n, test::spectrum_name(kind), c10::toString(dtype), seed);
  }
};

int64_t log_uniform(double u, int64_t largest) {
  return std::min(largest,
                  static_cast<int64_t>(std::exp2(u * std::log2(static_cast<double>(largest) + 0.999))));
}

// The largest size comes twice, wide and tall; the others have log-uniform sides.
Case make_case(int index) {
  constexpr at::ScalarType types[] = {at::kFloat, at::kBFloat16, at::kDouble};
  const auto seed = static_cast<uint64_t>(index);
  Case c{.m = 1024,
         .n = 4096,
         .kind = index % test::kSpectra,
         .dtype = types[(index / test::kSpectra) % 3],
         .seed = seed};
  if (index < 2) {
    if (index == 1) std::swap(c.m, c.n);
    return c;
  }
  const Tensor u = random_uniform({3}, {.seed = seed, .step = 99}, at::kDouble);
  c.m = log_uniform(u[0].item<double>(), 1024);
  c.n = log_uniform(u[1].item<double>(), 4096);
  if (u[2].item<double>() < 0.5) std::swap(c.m, c.n);
  return c;
}

struct Decomposed {
  explicit Decomposed(const Case& c)
      : weight(
            test::matrix_with_spectrum(test::spectrum(c.kind, std::min(c.m, c.n), c.seed), c.m, c.n, c.seed)
                .to(c.dtype)) {
    std::tie(u, s, vt) = at::linalg_svd(weight.to(at::kDouble), false);
    norm = s.max().item<double>();
    frobenius = s.norm().item<double>();
  }

  Tensor mapped(const std::function<double(double)>& f) const {
    std::vector<double> values;
    for (int64_t i = 0; i < s.numel(); ++i) values.push_back(f(s[i].item<double>()));
    return at::mm(u.mul(at::from_blob(values.data(), {s.numel()}, at::kDouble)), vt);
  }

  Tensor weight;  // as stored
  Tensor u, s, vt;
  double norm, frobenius;
};

// ---- the formulas, on one singular value
// -------------------------------------------------------------------------

double composed(std::span<const OddPolynomial> list, double x) {
  for (const OddPolynomial& p : list) x = p(x);
  return x;
}

double sign_polynomial(double x) {
  const OddPolynomial polish = {15.0 / 8, -10.0 / 8, 3.0 / 8};
  return polish(polish(composed(polynomials(Coefficients::six_step), x)));
}

// The sign formula with the polynomial in place of the sign: what cap_by_sign and clip_by_sign compute.
class SignFormula {
 public:
  explicit SignFormula(const Decomposed& d) : d_(d) {}

  double sign(double x) const { return d_.frobenius == 0.0 ? 0.0 : sign_polynomial(x / d_.frobenius); }

  // |t − σ| as the formula sees it; its own sign is divided by the norm of all t − o·σ.
  std::function<double(double)> distance(double t) const {
    double square = 0.0;
    for (int64_t i = 0; i < d_.s.numel(); ++i) {
      const double x = d_.s[i].item<double>(), y = t - sign(x) * x;
      square += y * y;
    }
    const double size = std::sqrt(square);
    return [this, t, size](double x) {
      return (size == 0.0 ? 0.0 : sign_polynomial((t - sign(x) * x) / size)) * (t * sign(x) - x);
    };
  }

  std::function<double(double)> cap(double beta) const {
    return [this, beta, from_cap = distance(beta)](double x) {
      return 0.5 * (beta * sign(x) + x - from_cap(x));
    };
  }

  std::function<double(double)> clip(double alpha, double beta) const {
    return [this, alpha, beta, from_floor = distance(alpha), from_cap = distance(beta)](double x) {
      return 0.5 * ((alpha + beta) * sign(x) + from_floor(x) - from_cap(x));
    };
  }

 private:
  const Decomposed& d_;
};

// ---- the comparison
// ----------------------------------------------------------------------------------------------

bool uses_signs(const std::string& method) {
  return method == "hard_cap" || method == "clip" || method == "clipped_weight_decay" || method == "stiefel";
}

// ‖result − expected‖_F ≤ tolerance · error_unit. The unit is ε·max(‖W‖, cap)·√rank, ε = 2^-52, 2^-23, 2^-8;
// for methods that take signs, a singular value σ far below the Frobenius norm F counts with its condition:
// F/σ where the matrix itself is rounded (bfloat16), (F/σ)² up to 10⁶ where the Gram matrix is, and never
// more than the value's full range.
double error_unit(const std::string& method, at::ScalarType dtype, const Decomposed& d, double cap) {
  const double epsilon = test::epsilon(dtype), size = std::max(d.norm, cap);
  if (!uses_signs(method)) return epsilon * size * std::sqrt(static_cast<double>(d.s.numel()));
  double square = 0.0;
  for (int64_t i = 0; i < d.s.numel(); ++i) {
    const double ratio = d.frobenius / std::max(d.s[i].item<double>(), 1e-12 * d.frobenius);
    const double condition = dtype == at::kBFloat16 ? ratio : std::min(ratio * ratio, 1e6);
    square += std::pow(std::min(1.0, epsilon * condition), 2);
  }
  return d.frobenius == 0.0 ? 0.0 : size * std::sqrt(square);
}

double tolerance(const std::string& method, at::ScalarType dtype) {
  // Divides by a bound that may exceed the norm by 1e-4.
  const double excess = method == "normalize" ? 1e-4 / test::epsilon(dtype) : 0.0;
  // In float64 the yardstick's own error shows.
  return excess + (dtype == at::kDouble ? 64.0 : 8.0);
}

class Shard {
 public:
  void check(const Case& c) {
    const Decomposed d(c);
    check_norms(c, d);
    const double cap = d.norm > 0.0 ? 0.8 * d.norm : 1.0;
    const Param shape{.name = "w", .tensor = d.weight};
    const StepInfo step{.learning_rate = 0.25 * cap / shape.unit(), .update_bound = 1.0};
    const SignFormula formula(d);
    const auto cubic = [](double strength) { return OddPolynomial{1.0 + strength, -strength, 0.0}; };
    const auto soft = soft_cap_coupling(step.reach(cap / shape.unit()) / (cap / shape.unit()));
    // The signs are asked for a little less than the cap, so that their largest error stays below it.
    const auto excess = cap_by_sign_excess(1.25 * cap, cap, d.s.numel());
    ASSERT_TRUE(excess) << c.name();
    const auto identity = [](double x) { return x; };
    const std::map<std::string, std::function<double(double)>> maps = {
        {"none", identity},
        {"weight_decay", identity},
        {"normalize", [&](double x) { return x * std::min(1.0, d.norm > 0.0 ? cap / d.norm : 1.0); }},
        {"stiefel",
         [&](double x) {
           return d.frobenius == 0.0 ? 0.0
                                     : cap * composed(polynomials(Coefficients::six_step), x / d.frobenius);
         }},
        {"soft_cap",
         [&](double x) {
           const OddPolynomial down{1.0, -soft.alpha, 0.0}, up{1.0, soft.alpha, 0.0};
           return cap * up(down(soft.shrink * x / cap));
         }},
        {"hard_cap", formula.cap(cap - 1.01 * *excess)},
        {"hard_cap_polynomial", [&](double x) { return cap * hard_cap_polynomial(x / cap); }},
        {"hard_cap_svd", [&](double x) { return std::min(x, cap); }},
        {"clip", formula.clip(0.3 * cap, cap)},
        {"clipped_weight_decay",
         [&, capped = formula.cap(cap)](double x) { return 0.9 * x + 0.1 * capped(x); }},
        {"parseval", [&](double x) { return cap * cubic(0.1)(x / cap); }},
    };
    for (const auto& [method, f] : maps) compare(c, d, method, cap, step, d.mapped(f));
    check_rank_one(c, d, cap);
  }

  // The worst error seen, in error units: printed so that tolerances can be judged.
  void report() const {
    for (const auto& [key, value] : worst_) fmt::print("{:<40}{:.1f}\n", key, value);
  }

 private:
  static double hard_cap_polynomial(double x) {
    constexpr OddPolynomial list[] = {{0.805032, 0.206361, -0.019763},
                                      {0.649867, 0.162935, -0.011150},
                                      {1.810259, -0.200265, 0.008251},
                                      {1.004384, -0.183490, 0.014413}};
    return composed(list, x);
  }

  void check_norms(const Case& c, const Decomposed& d) {
    const auto bound = spectral_norm_bound(d.weight);
    ASSERT_TRUE(bound) << c.name();
    // LAPACK's own largest singular value is good to a few units of 2^-53·√rank.
    const double svd_error = 8 * 0x1p-53 * std::sqrt(static_cast<double>(d.s.numel()));
    EXPECT_GE(bound->value.to_double(), d.norm * (1 - svd_error)) << c.name();
    EXPECT_LE(bound->value.to_double(), d.norm * (1 + 1e-8)) << c.name();
    EXPECT_TRUE(prove_spectral_norm(d.weight, d.norm * (1 + 1e-8))) << c.name();
    if (d.weight.numel() <= 65536) {  // the other two methods, where they take no time
      for (const auto method : {BoundMethod::gram, BoundMethod::svd}) {
        const auto other = spectral_norm_bound(d.weight, {.method = method});
        ASSERT_TRUE(other) << c.name();
        EXPECT_GE(other->value.to_double(), d.norm * (1 - svd_error)) << c.name();
        EXPECT_LE(other->value.to_double(), d.norm * (1 + 1e-6) + 1e-100) << c.name();
      }
    }
    EXPECT_EQ(prove_spectral_norm(d.weight, d.norm * (1 - 1e-8)), d.norm == 0.0) << c.name();
    EXPECT_LE(spectral_norm_estimate(d.weight).item<double>(), d.norm * (1 + 1e-5)) << c.name();
  }

  void compare(const Case& c, const Decomposed& d, const std::string& method, double cap,
               const StepInfo& step, const Tensor& expected) {
    const Param w{.name = "w", .tensor = d.weight.clone()};
    const double unit = w.unit();
    make_constraint({.method = method, .floor = 0.3 * cap / unit})->apply_(w, cap / unit, step);
    record(c, method, cap, d, w.tensor.to(at::kDouble).sub(expected).norm().item<double>());
  }

  // Methods that see the weight through power iteration change it by one rank-one matrix of their own
  // vectors.
  void check_rank_one(const Case& c, const Decomposed& d, double cap) {
    PowerState fresh;
    const TopSingular top = top_singular_estimate(d.weight, fresh, 16);
    const double sigma = top.sigma.item<double>();
    const Tensor direction = at::outer(top.left[0].to(at::kDouble), top.right[0].to(at::kDouble));
    const Tensor start = d.weight.to(at::kDouble);
    compare(c, d, "hammer", cap, {}, start.add(direction, cap - sigma));
    compare(c, d, "spectral_weight_decay", cap, {}, start.sub(direction, 0.05 * sigma));
    compare(c, d, "normalize_estimate", cap, {}, start.div(std::max(1.0, sigma / cap)));
    const bool outlier = test::spectrum_name(c.kind) == std::string("one_outlier");
    EXPECT_GE(sigma, outlier ? d.norm * (1 - 1e-5) : 0.0) << c.name();
  }

  void record(const Case& c, const std::string& method, double cap, const Decomposed& d, double error) {
    const double unit = error_unit(method, c.dtype, d, cap);
    EXPECT_LE(error, unit * tolerance(method, c.dtype)) << method << " " << c.name() << " unit " << unit;
    double& worst = worst_[fmt::format("{} {}", method, c10::toString(c.dtype))];
    if (unit > 0.0) worst = std::max(worst, error / unit);
  }

  std::map<std::string, double> worst_;
};

class SingularValues : public testing::TestWithParam<int> {};

TEST_P(SingularValues, FollowEveryFormulaAndNeverExceedTheVerifiedBound) {
  Shard shard;
  for (int index = GetParam(); index < kMatrices; index += kShards) shard.check(make_case(index));
  shard.report();
}

INSTANTIATE_TEST_SUITE_P(Shards, SingularValues, testing::Range(0, kShards));

}  // namespace
}  // namespace bridle
