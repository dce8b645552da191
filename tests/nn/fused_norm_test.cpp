#include "nn/fused_norm.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>

#include "support.h"

namespace bridle {
namespace {

constexpr int64_t kRows = 37, kSize = 50, kColumns = 64, kStride = 96;
constexpr double kEpsilon = 1e-3, kKeep = 0.75;

at::Tensor normed(NormLayer kind, const at::Tensor& x, const at::Tensor& gain, const at::Tensor& bias) {
  if (kind == NormLayer::tanh) return at::tanh(x);
  if (kind == NormLayer::center_norm)
    return x.sub(x.mean(-1, true)).mul(kSize / (kSize - 1.0)).mul(gain).add(bias);
  if (kind == NormLayer::layer_norm) return at::layer_norm(x, {kSize}, gain, bias, kEpsilon);
  return x.mul(x.square().mean(-1, true).add(kEpsilon).rsqrt()).mul(gain);
}

at::Tensor padded_row(const at::Tensor& values) {
  const at::Tensor row = at::zeros({kColumns}, at::kFloat);
  row.narrow(0, 0, kSize).copy_(values);
  return row;
}

TEST(FusedNorm, KernelsAgreeWithLibTorchThereAndBack) {
  for (const NormLayer kind :
       {NormLayer::rms_norm, NormLayer::layer_norm, NormLayer::center_norm, NormLayer::tanh}) {
    const bool has_gain = kind != NormLayer::tanh;
    const bool has_bias = kind == NormLayer::layer_norm || kind == NormLayer::center_norm;
    const at::Tensor x = test::normal({kRows, kSize}, 1).add(0.5).requires_grad_(true);
    const at::Tensor gain = test::normal({kSize}, 2), bias = test::normal({kSize}, 3);
    const at::Tensor d = test::normal({kRows, kSize}, 4).to(at::kBFloat16).to(at::kDouble);
    const at::Tensor y = normed(kind, x, gain, has_bias ? bias : at::Tensor());
    const at::Tensor dx = torch::autograd::grad({y}, {x}, {d})[0];
    const at::Tensor wide_gain = padded_row(gain), wide_bias = padded_row(bias);
    for (const auto set : {InstructionSet::plain, InstructionSet::avx2, InstructionSet::avx512,
                           InstructionSet::avx512_bf16, InstructionSet::amx}) {
      if (set > instruction_set()) continue;
      SCOPED_TRACE(std::string(word(kind)) + " " + instruction_set_name(set));
      const at::Tensor stream = at::zeros({kRows, kColumns}, at::kFloat);
      stream.narrow(1, 0, kSize).copy_(x.detach());
      const auto matrix = [] { return at::zeros({kRows, kStride}, at::kBFloat16); };
      const at::Tensor normal = matrix(), out = matrix(), copy = matrix(),
                       inverse = at::zeros({kRows}, at::kFloat);
      const auto bits = [](const at::Tensor& t) { return static_cast<Bfloat16*>(t.data_ptr()); };
      const auto floats = [](const at::Tensor& t) { return static_cast<float*>(t.data_ptr()); };
      NormTask task{.kind = kind,
                    .rows = kRows,
                    .size = kSize,
                    .columns = kColumns,
                    .epsilon = static_cast<float>(kEpsilon),
                    .gain = has_gain ? floats(wide_gain) : nullptr,
                    .bias = has_bias ? floats(wide_bias) : nullptr,
                    .stream = floats(stream),
                    .normal = bits(normal),
                    .out = bits(out),
                    .stride = kStride,
                    .inverse = floats(inverse)};
      step_kernels(set).norm(task);
      EXPECT_LT(test::largest_difference(out.narrow(1, 0, kSize), y.detach()), 0.04);
      EXPECT_EQ(out.narrow(1, kSize, kColumns - kSize).abs().max().item<double>(), 0.0);
      out.narrow(1, 0, kSize).copy_(d);
      const at::Tensor before = stream.clone();
      task.keep = static_cast<float>(kKeep);
      task.copy = bits(copy);
      step_kernels(set).norm_backward(task);
      const at::Tensor expected = before.narrow(1, 0, kSize).to(at::kDouble).mul(kKeep).add(dx);
      EXPECT_LT(test::largest_difference(stream.narrow(1, 0, kSize), expected), 0.05);
      EXPECT_LT(test::largest_difference(copy.narrow(1, 0, kSize), expected), 0.08);
    }
  }
}

TEST(FusedNorm, StatisticsFindTheLargestRowAndEntryAndSeeNan) {
  const std::vector<float> rows = {1.0F, -2.0F, 9.0F, 3.0F, 3.0F, 9.0F};  // two of three entries count
  const auto seen = largest_of(rows.data(), 2, 3, 2);
  EXPECT_DOUBLE_EQ(seen.largest_rms, 3.0);
  EXPECT_DOUBLE_EQ(seen.largest_entry, 3.0);
  const std::vector<float> bad = {1.0F, std::nanf(""), 2.0F, 2.0F};
  EXPECT_TRUE(std::isnan(largest_of(bad.data(), 2, 2, 2).largest_entry));
}

}  // namespace
}  // namespace bridle
