// The float32 kernels: whole passes are held against their twins in tests/nn/*_fused_test.cpp; here what only they do.
#include <ATen/ops/empty.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "kernels/arena.h"
#include "kernels/step_kernels.h"
#include "support.h"

namespace bridle {
namespace {

class StepKernelsFloat32 : public testing::TestWithParam<InstructionSet> {
 protected:
  void SetUp() override {
    if (GetParam() > instruction_set()) GTEST_SKIP() << "no " << instruction_set_name(GetParam()) << " here";
  }
  const StepKernels& kernels() const { return step_kernels(ValueType::float32, GetParam()); }
};

float* data_of(const at::Tensor& x) { return static_cast<float*>(x.data_ptr()); }

// Ragged, from rows and from columns, for both sides.
TEST_P(StepKernelsFloat32, PacksLinesOfEitherOrder) {
  const at::Tensor x = test::normal({40, 50}, 1, at::kFloat);
  for (const bool along_depth : {true, false}) {
    const int64_t lines = along_depth ? 40 : 50, depth = along_depth ? 50 : 40;
    const amx::Factor factor{data_of(x), amx::Element::float32, along_depth, lines, depth, 50};
    for (const auto side : {amx::Side::left, amx::Side::right}) {
      std::vector<uint32_t> words(static_cast<size_t>(kernels().packed_words(32, 64)));
      kernels().pack(factor, side, 32, 0, 2, words.data());
      const auto* values = reinterpret_cast<const float*>(words.data());
      for (int64_t line = 0; line < 32; ++line) {
        for (int64_t term = 0; term < 64; ++term) {
          const int64_t place =
              term / 32 * 1024 + (side == amx::Side::left ? line * 32 + term % 32 : term % 32 * 32 + line);
          const bool inside = 32 + line < lines && term < depth;
          const float expected = !inside       ? 0.0F
                                 : along_depth ? x[32 + line][term].item<float>()
                                               : x[term][32 + line].item<float>();
          EXPECT_EQ(values[place], expected) << line << " " << term;
        }
      }
    }
  }
}

TEST_P(StepKernelsFloat32, ProductsHaveFloat32sDigits) {
  const int64_t rows = 64, depth = 320, columns = 96;
  const at::Tensor left = test::normal({rows, depth}, 1, at::kFloat),
                   right = test::normal({columns, depth}, 2, at::kFloat);
  Arena arena;
  arena.reserve(Arena::size_of<uint32_t>(kernels().packed_words(columns, depth)));
  auto* packed = arena.take<uint32_t>(kernels().packed_words(columns, depth));
  const amx::Factor factor{data_of(right), amx::Element::float32, true, columns, depth, depth};
  for (int64_t line = 0; line < columns; line += 32)
    kernels().pack(factor, amx::Side::right, line, 0, depth / 32,
                   packed + line / 32 * (depth / 32) * kernels().step_words());
  const at::Tensor out = at::zeros({rows, columns}, at::kFloat);
  kernels().linear({.left = data_of(left),
                    .left_stride = depth,
                    .rows = rows,
                    .right = packed,
                    .steps = depth / 32,
                    .end_block = columns / 32,
                    .out = data_of(out),
                    .out_stride = columns});
  const at::Tensor expected = at::matmul(left.to(at::kDouble), right.to(at::kDouble).t());
  EXPECT_LT(test::largest_difference(out, expected), 1e-4);
}

INSTANTIATE_TEST_SUITE_P(Of, StepKernelsFloat32,
                         testing::Values(InstructionSet::plain, InstructionSet::avx2, InstructionSet::avx512),
                         [](const auto& set) { return std::string(instruction_set_name(set.param)); });

}  // namespace
}  // namespace bridle
