// What StepInfo says of a step holds: ‖W_after − (1 − λη)W‖ ≤ η·update_bound, for each block in its own units, and the
// norm after it is at most its reach. docs/theory/steps.md, statements 1 and 2.
#include <gtest/gtest.h>

#include "bridle/linalg.h"
#include "bridle/optim.h"
#include "support.h"

namespace bridle {
namespace {

struct Case {
  int64_t rows, columns, blocks;
};

// The largest norm of a matrix's blocks in their units.
double block_norm(const Tensor& matrix, const Param& param) {
  double largest = 0.0;
  for (const Tensor& block : matrix.chunk(param.blocks)) {
    largest = std::max(largest, test::spectral_norm(block) / param.unit());
  }
  return largest;
}

void expect_bounded_steps(const Case& shape, const OptimizerOptions& options, at::ScalarType dtype,
                          double slack) {
  const Tensor w = test::normal({shape.rows, shape.columns}, 1).mul(0.05).to(dtype);
  const Param param{.name = "w", .tensor = w, .blocks = shape.blocks};
  Optimizer optimizer({param}, options);
  double largest = 0.0;
  for (int t = 0; t < 2 * test::kSpectra; ++t) {
    const auto seed = static_cast<uint64_t>(t);
    const int64_t rank = std::min(shape.rows, shape.columns);
    const Tensor values = test::spectrum(t % test::kSpectra, rank, seed);
    const Tensor g = test::matrix_with_spectrum(values, shape.rows, shape.columns, seed).to(dtype);
    const Tensor before = w.to(at::kDouble).clone();
    const StepInfo info = optimizer.step_({&g, 1}, 1.0 / (1 + t), t).at(0);
    const Tensor change = w.to(at::kDouble).sub(before, 1.0 - info.decay * info.learning_rate);
    const double norm = block_norm(change, param) / info.learning_rate;
    EXPECT_LE(norm, info.update_bound + slack) << shape.rows << " x " << shape.columns << " step " << t;
    EXPECT_LE(block_norm(w, param), info.reach(block_norm(before, param)) + slack * info.learning_rate);
    largest = std::max(largest, norm);
  }
  EXPECT_GT(largest, 0.8) << "the bound is far from what updates reach";
}

constexpr Case kCases[] = {{16, 16, 1}, {16, 16, 4}, {12, 48, 1}, {12, 48, 3}, {64, 8, 1}, {64, 8, 2}};

TEST(StepBound, HoldsForMuonOnAnyGradient) {
  for (const Case& shape : kCases) {
    for (const Coefficients coefficients :
         {Coefficients::six_step, Coefficients::five_step, Coefficients::classic}) {
      for (const bool nesterov : {false, true}) {
        const OptimizerOptions options{
            .lr = 0.2, .weight_decay = 0.3, .nesterov = nesterov, .ns_coefficients = coefficients};
        expect_bounded_steps(shape, options, at::kDouble, 1e-9);
        // Wide and tall matrices go through Gram space, where float32 sees small singular values badly.
        expect_bounded_steps(shape, options, at::kFloat, 0.01);
      }
    }
  }
}

TEST(StepBound, IsMissedByLittleWithProductsInBfloat16) {
  for (const Case& shape : kCases) {
    expect_bounded_steps(shape, {.lr = 0.2, .weight_decay = 0.3, .product_dtype = at::kBFloat16}, at::kFloat,
                         0.02);
  }
}

TEST(StepBound, HoldsForEveryRowOfAnEmbedding) {
  const Tensor table = test::normal({40, 24}, 1, at::kFloat);
  Optimizer optimizer({{.name = "e", .tensor = table, .role = Role::embedding}},
                      {.lr = 0.2, .weight_decay = 0.3});
  for (int t = 0; t < 20; ++t) {
    const auto seed = static_cast<uint64_t>(t);
    const Tensor sizes =
        test::normal({40, 1}, 100 + seed).mul(8.0).exp();  // from far below to far above the limit
    const Tensor g = test::normal({40, 24}, 200 + seed).mul(sizes).to(at::kFloat);
    const Tensor before = table.to(at::kDouble);
    const StepInfo info = optimizer.step_({&g, 1}, 1.0 / (1 + t), t).at(0);
    const Tensor change = table.to(at::kDouble).sub(before, 1.0 - info.decay * info.learning_rate);
    const double largest = change.square().mean(-1).sqrt().max().item<double>() / info.learning_rate;
    EXPECT_LE(largest, info.update_bound + 1e-4);
    EXPECT_GT(largest, 0.99);
  }
}

}  // namespace
}  // namespace bridle
