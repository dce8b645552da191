// Every kernel of the fused step, for every instruction set that this machine has, against LibTorch in float64.
#include "kernels/step_kernels.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/full.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <limits>

#include "kernels/arena.h"
#include "support.h"

namespace bridle {
namespace {

using at::Tensor;
using test::largest_difference;
using test::normal;

constexpr double kHalfUnit = 1.0 / 256;  // bfloat16's: half of the distance of neighbours, relative

class StepKernelsTest : public testing::TestWithParam<InstructionSet> {
 protected:
  void SetUp() override {
    if (GetParam() > instruction_set()) GTEST_SKIP() << "no " << instruction_set_name(GetParam()) << " here";
  }
  const StepKernels& kernels() const { return step_kernels(GetParam()); }

  // The right factor of a product, [depth, columns], packed.
  std::vector<uint32_t> packed(const Tensor& right) const {
    const Tensor wide = right.to(at::kFloat).contiguous();
    const int64_t depth = padded(right.size(0)), columns = padded(right.size(1)), steps = depth / amx::kStep;
    std::vector<uint32_t> words(static_cast<size_t>(kernels().packed_words(columns, depth)) + 16);
    const amx::Factor factor{wide.data_ptr(), amx::Element::float32, false,
                             right.size(1),   right.size(0),         right.size(1)};
    for (int64_t line = 0; line < columns; line += amx::kBlock)
      kernels().pack(factor, amx::Side::right, line, 0, steps,
                     aligned(words) + line / amx::kBlock * steps * amx::kPairsPerStep);
    return words;
  }
  static uint32_t* aligned(std::vector<uint32_t>& words) {
    return reinterpret_cast<uint32_t*>((reinterpret_cast<uintptr_t>(words.data()) + 63) / 64 * 64);
  }
};

Tensor rounded(const Tensor& x) { return x.to(at::kBFloat16); }
Bfloat16* data_of(const Tensor& x) { return static_cast<Bfloat16*>(x.data_ptr()); }
float* floats_of(const Tensor& x) { return static_cast<float*>(x.data_ptr()); }

double relative_error(const Tensor& a, const Tensor& b) {
  return a.to(at::kDouble).sub(b.to(at::kDouble)).norm().item<double>() /
         b.to(at::kDouble).norm().item<double>();
}

// |a − b| ≤ share·|b| + least, everywhere.
void expect_close(const Tensor& a, const Tensor& b, double share, double least) {
  const Tensor wide = b.to(at::kDouble),
               excess = a.to(at::kDouble).sub(wide).abs().sub(wide.abs().mul(share));
  EXPECT_LE(excess.max().item<double>(), least);
}

TEST_P(StepKernelsTest, ProductsEndInWhatFollowsThem) {
  const int64_t rows = 96, depth = 64, columns = 96;
  const Tensor left = rounded(normal({rows, depth}, 1)), right = rounded(normal({depth, columns}, 2));
  const Tensor product = at::matmul(left.to(at::kDouble), right.to(at::kDouble)).mul(0.25);
  std::vector<uint32_t> words = packed(right);
  const auto bfloat16 = at::TensorOptions().dtype(at::kBFloat16);
  LinearTask task{.left = data_of(left),
                  .left_stride = depth,
                  .rows = rows,
                  .right = aligned(words),
                  .steps = depth / amx::kStep,
                  .end_block = columns / amx::kBlock,
                  .factor = 0.25F,
                  .out_stride = columns,
                  .stream_stride = columns};
  const Tensor out = at::zeros({rows, columns}, bfloat16), slope = rounded(normal({rows, columns}, 3));
  const Tensor stream = normal({rows, columns}, 4, at::kFloat), before = stream.clone();
  task.out = data_of(out);
  task.slope = data_of(slope);
  task.stream = floats_of(stream);

  kernels().linear(task);
  expect_close(out, product, kHalfUnit, 1e-5);

  task.epilogue = Epilogue::times;
  kernels().linear(task);
  expect_close(out, product.mul(slope.to(at::kDouble)), kHalfUnit, 1e-5);

  task.epilogue = Epilogue::residual;
  task.keep = 0.75F;
  kernels().linear(task);
  const Tensor sum = before.to(at::kDouble).mul(0.75).add(product);
  expect_close(stream, sum, 1e-6, 1e-5);
  expect_close(out, sum, kHalfUnit, 1e-5);

  task.epilogue = Epilogue::logits;
  kernels().linear(task);
  expect_close(stream, product, 1e-6, 1e-5);
}

TEST_P(StepKernelsTest, ActivationsAndTheirSlopesAreThoseOfLibTorch) {
  const int64_t rows = 64, columns = 64;
  const Tensor left = rounded(normal({rows, 32}, 1).mul(3)), right = rounded(normal({32, columns}, 2));
  std::vector<uint32_t> words = packed(right);
  const auto f = [](ActivationKind kind, const Tensor& x) {
    if (kind == ActivationKind::relu) return at::relu(x);
    return at::gelu(x, kind == ActivationKind::gelu ? "none" : "tanh");
  };
  for (const ActivationKind kind : {ActivationKind::gelu, ActivationKind::gelu_tanh, ActivationKind::relu}) {
    const Tensor out = at::zeros({rows, columns}, at::kBFloat16), slope = out.clone();
    kernels().linear({.left = data_of(left),
                      .left_stride = 32,
                      .rows = rows,
                      .right = aligned(words),
                      .steps = 1,
                      .end_block = columns / amx::kBlock,
                      .epilogue = Epilogue::activate,
                      .factor = 0.5F,
                      .out = data_of(out),
                      .slope = data_of(slope),
                      .out_stride = columns,
                      .activation = kind,
                      .share = 0.8F});
    const Tensor x = at::matmul(left.to(at::kDouble), right.to(at::kDouble)).mul(0.5).requires_grad_(true);
    const Tensor y = f(kind, x).mul(0.8);
    expect_close(out, y.detach(), kHalfUnit, 1e-5);
    expect_close(slope, torch::autograd::grad({y.sum()}, {x})[0], kHalfUnit, 1e-5);
  }
}

TEST_P(StepKernelsTest, GradientsOfWeightsAddUpOverRows) {
  const int64_t depth = 288, left_columns = 64, right_columns = 96;
  const Tensor left = rounded(normal({depth, left_columns}, 1)),
               right = rounded(normal({depth, right_columns}, 2));
  const int64_t steps = depth / amx::kStep, left_blocks = left_columns / amx::kBlock;
  Arena arena;
  arena.reserve(1 << 21);
  auto* packed_left = arena.take<uint32_t>(kernels().packed_words(left_columns, depth));
  auto* out = arena.take<float>(left_columns * right_columns);
  auto* scratch = arena.take<uint32_t>(kernels().packed_words(kGradientColumns, depth));
  const amx::Factor factor{left.data_ptr(), amx::Element::bfloat16, false, left_columns, depth, left_columns};
  for (int64_t i = 0; i < left_blocks; ++i)
    kernels().pack(factor, amx::Side::left, i * amx::kBlock, 0, steps,
                   packed_left + i * steps * amx::kPairsPerStep);
  std::fill_n(out, left_columns * right_columns, 99.0F);
  for (const bool add : {false, true})
    kernels().add_gradient(
        {packed_left, left_blocks, data_of(right), right_columns, right_columns, depth, add, out, scratch});
  const Tensor expected = at::matmul(left.to(at::kDouble).t(), right.to(at::kDouble)).mul(2);
  const Tensor blocks = at::from_blob(out, {right_columns / 32, left_blocks, 32, 32}, at::kFloat);
  const Tensor seen = blocks.permute({1, 2, 0, 3}).reshape({left_columns, right_columns});
  expect_close(seen, expected, 1e-6, 1e-3);
}

TEST_P(StepKernelsTest, RopeTurnsPairsAndTurnsThemBack) {
  for (const int64_t head_size : {6, 32, 64, 80}) {
    const int64_t rows = 32, heads = 3, half = head_size / 2;
    const Tensor angle = normal({rows, half}, 1, at::kFloat),
                 x = rounded(normal({rows, heads, head_size}, 2));
    const Tensor cosine = angle.cos(), sine = angle.sin(), turned = x.clone();
    RopeTask task{.data = data_of(turned),
                  .stride = heads * head_size,
                  .rows = rows,
                  .heads = heads,
                  .head_size = head_size,
                  .cosine = floats_of(cosine),
                  .sine = floats_of(sine)};
    kernels().rope(task);
    const Tensor wide = x.to(at::kDouble), c = cosine.to(at::kDouble).unsqueeze(1),
                 s = sine.to(at::kDouble).unsqueeze(1);
    const Tensor first = wide.narrow(-1, 0, half), second = wide.narrow(-1, half, half);
    const Tensor expected = at::cat({first.mul(c).sub(second.mul(s)), second.mul(c).add(first.mul(s))}, -1);
    expect_close(turned, expected, kHalfUnit, 1e-6);
    task.direction = -1.0F;
    kernels().rope(task);
    expect_close(turned, wide, 3 * kHalfUnit, 0.02);
  }
}

struct AttentionCase {
  int64_t rows, head_size;
  bool bias;
};

TEST_P(StepKernelsTest, AttentionAndItsGradientsAreThoseOfLibTorch) {
  for (const auto& [rows, head_size, with_bias] :
       {AttentionCase{32, 16, false}, {64, 64, true}, {160, 40, true}, {288, 128, false}}) {
    const int64_t stride = 3 * head_size + 32;
    const Tensor qkv = at::zeros({rows, stride}, at::kBFloat16),
                 d_qkv = at::zeros({rows, stride}, at::kBFloat16);
    qkv.narrow(1, 0, 3 * head_size).copy_(normal({rows, 3 * head_size}, 1).mul(1.5));
    const Tensor out = at::zeros({rows, head_size + 32}, at::kBFloat16), d_out = out.clone();
    d_out.narrow(1, 0, head_size).copy_(normal({rows, head_size}, 2));
    const Tensor log_sums = at::zeros({rows}, at::kFloat), bias = normal({2 * rows}, 3, at::kFloat);
    const Tensor d_bias = at::zeros({2 * rows}, at::kFloat);
    const Tensor sums = at::zeros({2, rows, padded(head_size)}, at::kFloat);
    Arena arena;
    arena.reserve(attention_scratch(rows, head_size, sizeof(Bfloat16)));
    AttentionTask task{.rows = rows,
                       .head_size = head_size,
                       .scale = 0.2F,
                       .q = data_of(qkv),
                       .k = data_of(qkv) + head_size,
                       .v = data_of(qkv) + 2 * head_size,
                       .stride = stride,
                       .out = data_of(out),
                       .out_stride = head_size + 32,
                       .log_sums = floats_of(log_sums),
                       .bias = with_bias ? floats_of(bias) : nullptr,
                       .d_out = data_of(d_out),
                       .dq = data_of(d_qkv),
                       .dk = data_of(d_qkv) + head_size,
                       .dv = data_of(d_qkv) + 2 * head_size,
                       .key_sums = floats_of(sums[0]),
                       .value_sums = floats_of(sums[1]),
                       .d_bias = with_bias ? floats_of(d_bias) : nullptr,
                       .scratch = arena.take<char>(attention_scratch(rows, head_size, sizeof(Bfloat16)))};
    kernels().attend(task);
    kernels().attend_backward(task);

    const Tensor leaf = qkv.narrow(1, 0, 3 * head_size).to(at::kDouble).requires_grad_(true);
    const Tensor table = bias.to(at::kDouble).requires_grad_(true);
    const auto part = [&](int64_t i) { return leaf.narrow(1, i * head_size, head_size); };
    Tensor logits = at::matmul(part(0), part(1).t()).mul(static_cast<double>(0.2F));
    if (with_bias)
      logits = logits.add(table.as_strided({rows, rows}, {1, 1}).flip(0));  // [i, j] at rows − 1 − i + j
    const Tensor mask = at::full({rows, rows}, -std::numeric_limits<double>::infinity(), at::kDouble).triu(1);
    const Tensor y = at::matmul(at::softmax(logits.add(mask), -1), part(2));
    const auto gradients = torch::autograd::grad(
        {y}, {leaf, table}, {d_out.narrow(1, 0, head_size).to(at::kDouble)}, {}, false, true);
    EXPECT_LT(relative_error(out.narrow(1, 0, head_size), y.detach()), 0.006);
    EXPECT_LT(largest_difference(log_sums, logits.add(mask).detach().logsumexp(-1)), 1e-4);
    for (int64_t i = 0; i < 3; ++i)
      EXPECT_LT(relative_error(d_qkv.narrow(1, i * head_size, head_size),
                               gradients[0].narrow(1, i * head_size, head_size)),
                0.01)
          << i;
    if (with_bias) {
      EXPECT_LT(relative_error(d_bias.narrow(0, 0, rows), gradients[1].narrow(0, 0, rows)), 0.01);
    }
    EXPECT_EQ(out.narrow(1, head_size, 32).abs().max().item<double>(),
              0.0);  // nothing beside the head is touched
    EXPECT_EQ(d_qkv.narrow(1, 3 * head_size, 32).abs().max().item<double>(), 0.0);
  }
}

TEST_P(StepKernelsTest, AttentionStaysFiniteForLargeLogits) {
  const int64_t rows = 64, head_size = 32, stride = 3 * head_size;
  const Tensor qkv = rounded(normal({rows, stride}, 1).mul(300));
  const Tensor out = at::zeros({rows, head_size}, at::kBFloat16), log_sums = at::zeros({rows}, at::kFloat);
  Arena arena;
  arena.reserve(attention_scratch(rows, head_size, sizeof(Bfloat16)));
  kernels().attend({.rows = rows,
                    .head_size = head_size,
                    .q = data_of(qkv),
                    .k = data_of(qkv) + head_size,
                    .v = data_of(qkv) + 2 * head_size,
                    .stride = stride,
                    .out = data_of(out),
                    .out_stride = head_size,
                    .log_sums = floats_of(log_sums),
                    .scratch = arena.take<char>(attention_scratch(rows, head_size, sizeof(Bfloat16)))});
  EXPECT_LE(out.abs().max().item<double>(), qkv.abs().max().item<double>());
}

TEST_P(StepKernelsTest, CrossEntropyAndItsGradientAreThoseOfLibTorch) {
  const int64_t rows = 32, tokens = 21, classes = 65, columns = 96;
  const Tensor logits = normal({rows, columns}, 1, at::kFloat).mul(5),
               targets = at::randint(classes, {rows}, at::kLong);
  const Tensor gradient = at::full({rows, columns}, 9.0, at::kBFloat16);
  LossTask task{.logits = floats_of(logits),
                .stride = columns,
                .rows = rows,
                .tokens = tokens,
                .classes = classes,
                .columns = columns,
                .targets = static_cast<const int64_t*>(targets.data_ptr()),
                .gradient = data_of(gradient),
                .gradient_stride = columns};
  kernels().cross_entropy(task);
  const Tensor leaf = logits.narrow(0, 0, tokens).narrow(1, 0, classes).to(at::kDouble).requires_grad_(true);
  const Tensor loss = at::cross_entropy_loss(leaf, targets.narrow(0, 0, tokens)).mul(tokens);
  EXPECT_NEAR(task.loss, loss.item<double>(), 1e-3);
  EXPECT_EQ(task.hits, leaf.argmax(-1).eq(targets.narrow(0, 0, tokens)).sum().item<int64_t>());
  const Tensor expected = at::zeros({rows, columns}, at::kDouble);
  expected.narrow(0, 0, tokens).narrow(1, 0, classes).copy_(torch::autograd::grad({loss}, {leaf})[0]);
  expect_close(gradient, expected, kHalfUnit, 1e-6);
}

TEST_P(StepKernelsTest, EqualLogitsCountForTheFirstClass) {
  const Tensor logits = at::zeros({32, 32}, at::kFloat), targets = at::zeros({32}, at::kLong);
  targets.narrow(0, 0, 20).fill_(3);
  LossTask task{.logits = floats_of(logits),
                .stride = 32,
                .rows = 32,
                .tokens = 32,
                .classes = 7,
                .columns = 32,
                .targets = static_cast<const int64_t*>(targets.data_ptr())};
  kernels().cross_entropy(task);
  EXPECT_EQ(task.hits, 12);
}

TEST_P(StepKernelsTest, MaxMinSortsPairsAndUnsortPutsThemBack) {
  const int64_t rows = 64, columns = 64;
  const Tensor left = rounded(normal({rows, 32}, 1)), right = rounded(normal({32, columns}, 2));
  std::vector<uint32_t> words = packed(right);
  const Tensor sorted = at::zeros({rows, columns}, at::kBFloat16), stays = sorted.clone(),
               back = sorted.clone();
  LinearTask task{.left = data_of(left),
                  .left_stride = 32,
                  .rows = rows,
                  .right = aligned(words),
                  .steps = 1,
                  .end_block = columns / amx::kBlock,
                  .epilogue = Epilogue::activate,
                  .out = data_of(sorted),
                  .slope = data_of(stays),
                  .out_stride = columns,
                  .activation = ActivationKind::maxmin};
  kernels().linear(task);
  const Tensor product = left.to(at::kDouble).matmul(right.to(at::kDouble));
  const Tensor pairs = product.view({rows, columns / 2, 2});
  expect_close(sorted, at::stack({pairs.amax(-1), pairs.amin(-1)}, -1).view({rows, columns}), kHalfUnit,
               1e-5);
  const double share = stays.to(at::kDouble).mean().item<double>();
  EXPECT_TRUE(share > 0.4 && share < 0.6) << share;
  // The same product again is not sorted: what changed places there changes places here.
  task.epilogue = Epilogue::unsort;
  task.out = data_of(back);
  kernels().linear(task);
  expect_close(back, at::stack({pairs.amax(-1), pairs.amin(-1)}, -1).view({rows, columns}), kHalfUnit, 1e-5);
}

TEST_P(StepKernelsTest, MaxMinKeepsANaNInItsPair) {
  for (const int64_t place : {6, 7}) {
    const Tensor left = rounded(normal({32, 32}, 1)), right = rounded(normal({32, 32}, 2));
    right.select(1, place).fill_(std::numeric_limits<double>::quiet_NaN());
    std::vector<uint32_t> words = packed(right);
    const Tensor out = at::zeros({32, 32}, at::kBFloat16), slope = out.clone();
    kernels().linear({.left = data_of(left),
                      .left_stride = 32,
                      .rows = 32,
                      .right = aligned(words),
                      .steps = 1,
                      .end_block = 1,
                      .epilogue = Epilogue::activate,
                      .out = data_of(out),
                      .slope = data_of(slope),
                      .out_stride = 32,
                      .activation = ActivationKind::maxmin});
    EXPECT_EQ(out.isnan().sum().item<int64_t>(), 32);
    EXPECT_EQ(out.narrow(1, 6, 2).isnan().sum().item<int64_t>(), 32);
  }
}

TEST_P(StepKernelsTest, NaNIsNeverLost) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Tensor left = rounded(normal({32, 32}, 1)), right = rounded(normal({32, 32}, 2));
  left[3][5] = nan;
  std::vector<uint32_t> words = packed(right);
  for (const ActivationKind kind :
       {ActivationKind::gelu, ActivationKind::gelu_tanh, ActivationKind::relu, ActivationKind::maxmin}) {
    const Tensor out = at::zeros({32, 32}, at::kBFloat16), slope = out.clone();
    kernels().linear({.left = data_of(left),
                      .left_stride = 32,
                      .rows = 32,
                      .right = aligned(words),
                      .steps = 1,
                      .end_block = 1,
                      .epilogue = Epilogue::activate,
                      .out = data_of(out),
                      .slope = data_of(slope),
                      .out_stride = 32,
                      .activation = kind});
    EXPECT_EQ(out.isnan().sum().item<int64_t>(), 32);
    EXPECT_EQ(slope.isnan().sum().item<int64_t>(), kind == ActivationKind::maxmin ? 0 : 32);
  }
  const Tensor logits = at::zeros({32, 32}, at::kFloat), targets = at::zeros({32}, at::kLong);
  logits[7][30] = nan;
  LossTask task{.logits = floats_of(logits),
                .stride = 32,
                .rows = 32,
                .tokens = 32,
                .classes = 32,
                .columns = 32,
                .targets = static_cast<const int64_t*>(targets.data_ptr())};
  kernels().cross_entropy(task);
  EXPECT_TRUE(std::isnan(task.loss));
  EXPECT_EQ(task.hits, 31);
}

TEST_P(StepKernelsTest, NarrowingRoundsAsLibTorchDoes) {
  const Tensor x = normal({3, 64}, 1, at::kFloat).mul(1e3), to = at::zeros({3, 80}, at::kBFloat16);
  kernels().narrow(floats_of(x), 64, 3, data_of(to), 80);
  EXPECT_TRUE(to.narrow(1, 0, 64).equal(x.to(at::kBFloat16)));
  const Tensor nan = at::full({1, 16}, std::numeric_limits<double>::quiet_NaN(), at::kFloat),
               out = at::zeros({1, 16}, at::kBFloat16);
  kernels().narrow(floats_of(nan), 16, 1, data_of(out), 16);
  EXPECT_TRUE(out.isnan().all().item<bool>());
}

INSTANTIATE_TEST_SUITE_P(EveryInstructionSet, StepKernelsTest,
                         testing::Values(InstructionSet::plain, InstructionSet::avx2, InstructionSet::avx512,
                                         InstructionSet::avx512_bf16, InstructionSet::amx),
                         [](const auto& with) { return instruction_set_name(with.param); });

}  // namespace
}  // namespace bridle
