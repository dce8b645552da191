// Each constraint and `orthogonalize`, as a ratio to the bare linear algebra it needs, both timed in turn in
// one run.
//   spectral_bench --benchmark_format=json --benchmark_filter=soft_cap
// Counters: ratio (median of op / median of bare), op_us, bare_us. "Bare" is the same products (matrix–vector
// products, factorisations) through the same library on operands that are ready: what no implementation of
// the method can save.
#include <ATen/ops/linalg_cholesky_ex.h>
#include <ATen/ops/linalg_eigvalsh.h>
#include <ATen/ops/linalg_svd.h>
#include <ATen/ops/mm.h>
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include "bridle/bridle.h"
#include "compare.h"
#include "kernels/cpu.h"
#include "linalg/lanczos.h"
#include "linalg/polynomials.h"
#include "linalg/product.h"

namespace bridle {
namespace {

// ---- the bare products
// -------------------------------------------------------------------------------------------

struct Operands {
  Tensor weight;  // in the precision of the products
  Tensor side;    // [n, n] like the Gram matrix
  Tensor small;   // [n, n] in the precision of the small products of Gram space

  explicit Operands(const Tensor& w)
      : weight(w), side(gram(w)), small(side.to(w.scalar_type() == at::kDouble ? at::kDouble : at::kFloat)) {}
};

void multiply(const Operands& x, const ProductCounts& counts) {
  for (int i = 0; i < counts.wide; ++i) {
    benchmark::DoNotOptimize(i % 2 == 0 ? gram(x.weight) : apply_side(x.side, x.weight));
  }
  const Tensor& small = counts.in_gram_space ? x.small : x.side;
  for (int i = 0; i < counts.small; ++i) benchmark::DoNotOptimize(product(small, small));
}

std::vector<OddPolynomial> sign_steps() {
  const auto six = polynomials(Coefficients::six_step);
  std::vector<OddPolynomial> steps(six.begin(), six.end());
  steps.insert(steps.end(), 2, {15.0 / 8, -10.0 / 8, 3.0 / 8});
  return steps;
}

void multiply_for(const Operands& x, const std::vector<OddPolynomial>& steps) {
  multiply(x, count_products(x.weight, steps, x.weight.scalar_type()));
}

// sign(W), O·Wᵀ, and for each end the sign of an [n, n] matrix and one wide product.
void multiply_for_signs(const Operands& x, int ends) {
  static const auto steps = sign_steps();
  multiply_for(x, steps);
  benchmark::DoNotOptimize(gram(x.weight));
  for (int i = 0; i < ends; ++i) {
    multiply(x, {.in_gram_space = false, .wide = 0, .small = 3 * static_cast<int>(steps.size())});
    benchmark::DoNotOptimize(apply_side(x.side, x.weight));
  }
}

void power_iteration_products(const Tensor& w, int rounds) {
  const Tensor v = w.narrow(0, 0, 1).t().contiguous(), u = w.narrow(1, 0, 1).contiguous();
  for (int i = 0; i < rounds; ++i) {
    benchmark::DoNotOptimize(at::mm(w, v));
    benchmark::DoNotOptimize(at::mm(w.t(), u));
  }
}

std::vector<OddPolynomial> steps_of_degree(int count, double c) {
  return std::vector<OddPolynomial>(static_cast<size_t>(count), {1.0, -0.1, c});
}

Action bare_for(const std::string& method, const Tensor& weight) {
  const auto x = std::make_shared<Operands>(weight);
  if (method == "soft_cap") return [x] { multiply_for(*x, steps_of_degree(2, 0.0)); };
  if (method == "parseval") return [x] { multiply_for(*x, steps_of_degree(1, 0.0)); };
  if (method == "stiefel") {
    return [x] {
      const auto six = polynomials(Coefficients::six_step);
      multiply(*x, count_products(x->weight, six, x->weight.scalar_type()));
    };
  }
  if (method == "hard_cap_polynomial") {
    return [x] {
      std::vector<OddPolynomial> steps(4, {0.8, 0.2, -0.01});
      multiply_for(*x, steps);
    };
  }
  if (method == "hard_cap" || method == "clipped_weight_decay") return [x] { multiply_for_signs(*x, 1); };
  if (method == "clip") return [x] { multiply_for_signs(*x, 2); };
  if (method == "hard_cap_svd") {
    return [w = weight.to(at::kDouble)] { benchmark::DoNotOptimize(at::linalg_svd(w, false)); };
  }
  if (method == "normalize") {
    const Tensor wide = weight.to(at::kDouble);
    const int64_t steps =
        largest_eigenvalue_estimate(gram(wide), 1.5e-4 / 4).steps;  // as many as normalize needs
    return [wide, steps] {
      const Tensor g = gram(wide), v = g.narrow(1, 0, 1).contiguous();
      benchmark::DoNotOptimize(at::linalg_cholesky_ex(g));
      for (int64_t i = 0; i < steps; ++i) benchmark::DoNotOptimize(at::mm(g, v));
    };
  }
  return [w = weight.to(at::kFloat)] { power_iteration_products(w, 16); };  // hammer and its like
}

// ---- registration
// ------------------------------------------------------------------------------------------------

struct Size {
  int64_t rows, columns;
};

void run_constraint(benchmark::State& state, const std::string& method, Size size, at::ScalarType dtype) {
  const Tensor start = orthogonalize(random_normal({size.rows, size.columns}, {.seed = 1})).to(dtype);
  const Param w{.name = "w", .tensor = start.clone()};
  const double sigma_max = 0.9 / w.unit();
  const StepInfo step{.learning_rate = 0.1 * sigma_max, .update_bound = 1.0};
  const auto constraint = make_constraint({.method = method});
  const Action op = [&] {
    w.tensor.copy_(start);  // the same work every time; the copy counts against us
    constraint->apply_(w, sigma_max, step);
  };
  compare(state, op, bare_for(method, start));
}

void run_orthogonalize(benchmark::State& state, Size size, at::ScalarType dtype) {
  const Tensor start = random_normal({size.rows, size.columns}, {.seed = 1}).to(dtype);
  compare(
      state, [&] { benchmark::DoNotOptimize(orthogonalize(start)); }, bare_for("stiefel", start));
}

void run_norm_bound(benchmark::State& state, Size size) {
  const Tensor w = random_normal({size.rows, size.columns}, {.seed = 1});
  const Tensor g = gram(w.to(at::kDouble));
  compare(
      state, [&] { benchmark::DoNotOptimize(spectral_norm_bound(w)); },
      [&] { benchmark::DoNotOptimize(at::linalg_eigvalsh(g, "L")); });
}

void register_all() {
  constexpr Size sizes[] = {{256, 256}, {1024, 256}, {256, 3072}, {768, 768}, {3072, 768}, {50304, 768}};
  const auto add = [](const std::string& name, auto&& function) {
    benchmark::RegisterBenchmark(name.c_str(), function)
        ->UseManualTime()
        ->Unit(benchmark::kMillisecond)
        ->MinTime(0.3);
  };
  for (const Size size : sizes) {
    for (const auto dtype : {at::kFloat, at::kBFloat16}) {
      const std::string suffix =
          fmt::format("/{}x{}/{}", size.rows, size.columns, dtype == at::kFloat ? "float32" : "bfloat16");
      add("orthogonalize" + suffix, [=](benchmark::State& state) { run_orthogonalize(state, size, dtype); });
      for (const std::string& method : constraint_names()) {
        if (method == "none" || method == "weight_decay") continue;  // nothing to do
        if (method == "hard_cap_svd" && size.rows == 50304)
          continue;  // a yardstick for tests: half a minute a call
        add(method + suffix, [=](benchmark::State& state) { run_constraint(state, method, size, dtype); });
      }
    }
    add(fmt::format("spectral_norm_bound/{}x{}/vs_eigvalsh", size.rows, size.columns),
        [=](benchmark::State& state) { run_norm_bound(state, size); });
  }
}

}  // namespace
}  // namespace bridle

int main(int argc, char** argv) {
  bridle::use_all_cores();
  bridle::register_all();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
