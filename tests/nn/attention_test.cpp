#include "nn/attention.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <gtest/gtest.h>

#include <limits>

#include "bridle/error.h"
#include "nn_support.h"
#include "support.h"

namespace bridle {
namespace {

using test::Bench;

TEST(AttentionModule, GradientsAreThoseOfFiniteDifferences) {
  for (const bool extras : {false, true}) {
    TransformerOptions options = test::small_transformer();
    options.position_bias = options.bias = options.learnable_scales = extras;
    options.position_bias_offsets = extras ? 3 : 0;
    options.value_norm = extras;
    Bench bench(options);
    const Attention attention(bench.options, bench.weights, "attention", 0);
    bench.randomize_(0.5);
    const at::Tensor x = test::normal({2, 6, 16}, 1).requires_grad_(true);
    auto tensors = bench.tensors(x);
    if (extras) {  // a bias of the keys moves all logits of a row alike: its gradient is zero
      std::erase_if(tensors, [&](const at::Tensor& t) { return t.is_same(bench.params[3].tensor); });
      ASSERT_EQ(bench.params[3].name, "attention.k_proj.bias");
    }
    test::expect_gradients([&] { return attention.forward(x, bench.pass); }, tensors);
  }
}

TEST(AttentionModule, SeesOnlyThePast) {
  Bench bench(test::small_transformer());
  const Attention attention(bench.options, bench.weights, "attention", 0);
  bench.randomize_(0.5);
  const at::Tensor x = test::normal({1, 6, 16}, 1);
  at::Tensor changed = x.clone();
  changed.select(1, 4).add_(1.0);
  const at::Tensor difference =
      attention.forward(x, bench.pass).sub(attention.forward(changed, bench.pass)).abs().amax({0, 2});
  EXPECT_EQ(difference.narrow(0, 0, 4).max().item<double>(), 0.0);
  EXPECT_GT(difference[4].item<double>(), 1e-3);
}

TEST(AttentionModule, PositionBiasCountsFromTheQueryAndItsLastOffsetServesTheRest) {
  TransformerOptions options = test::small_transformer();
  options.position_bias = true;
  options.position_bias_offsets = 3;
  options.positions = PositionKind::none;
  options.softmax_scale = 0.0;  // position alone decides
  Bench bench(options);
  const Attention attention(bench.options, bench.weights, "attention", 0);
  {
    const at::NoGradGuard no_gradients;
    for (const Param& param : bench.params) {
      if (param.role == Role::position_bias) param.tensor.select(1, 1).fill_(100.0);  // one token back
      if (param.role == Role::attention_output) param.tensor.copy_(test::normal({16, 16}, 2));
    }
  }
  const at::Tensor x = test::normal({1, 6, 16}, 1);
  at::Tensor changed = x.clone();
  changed.select(1, 2).add_(1.0);
  const at::Tensor difference =
      attention.forward(x, bench.pass).sub(attention.forward(changed, bench.pass)).abs().amax({0, 2});
  EXPECT_GT(difference[3].item<double>(), 1e-2);
  EXPECT_LT(difference[2].item<double>(), 1e-12);
  EXPECT_LT(difference[5].item<double>(), 1e-12);
}

TEST(AttentionModule, HeadsMayBeginWithATokenEach) {
  TransformerOptions options = test::small_transformer();
  options.num_hidden_layers = 3;
  options.position_bias = true;
  options.position_bias_offsets = 3;
  options.position_bias_start = 5.0;
  options.position_bias_dilation = 2;
  const auto model = make_model(options, 1);
  int64_t apart = 1;  // doubles with every block
  for (const Param& param : model->params()) {
    if (param.role != Role::position_bias) continue;
    for (int64_t head = 0; head < param.tensor.size(0); ++head)
      for (int64_t offset = 0; offset < 3; ++offset)
        EXPECT_EQ(param.tensor[head][offset].item<double>(), head * apart == offset ? 5.0 : 0.0)
            << param.name;
    apart *= 2;
  }
  EXPECT_EQ(apart, 8);
}

TEST(AttentionModule, HasNoBoundWhereItsPositionBiasIsNotFinite) {
  TransformerOptions options = test::small_transformer();
  options.position_bias = true;
  Bench bench(options, at::kFloat);
  const Attention attention(bench.options, bench.weights, "attention", 0);
  const auto norms = measured_norms();
  Walk walk(*norms);
  attention.bound({}, walk);
  {
    const at::NoGradGuard no_gradients;
    bench.params.back().tensor[0][0] = std::numeric_limits<float>::quiet_NaN();
  }
  ASSERT_EQ(bench.params.back().role, Role::position_bias);
  EXPECT_THROW(attention.bound({}, walk), PromiseError);
}

// Grouped-query attention is the ordinary one whose weights of keys and values repeat a head's rows for each query head that it
// serves. The bound and the enclosure are the ordinary one's, too: they are made of the same numbers.
TEST(AttentionModule, WithGroupedQueriesEqualsTheOrdinaryOneWithRepeatedRows) {
  const at::NoGradGuard no_gradients;
  for (const int64_t groups : {1, 2, 4}) {
    for (const bool extras : {false, true}) {
      TransformerOptions options = test::small_transformer();
      options.num_key_value_heads = groups;
      options.position_bias = options.bias = extras;
      options.positions = groups == 1 ? PositionKind::none : PositionKind::rope;
      for (const at::ScalarType dtype : {at::kDouble, at::kFloat}) {
        Bench grouped(options, dtype);
        const Attention attention(grouped.options, grouped.weights, "attention", 0);
        grouped.randomize_(0.4);
        TransformerOptions repeated = options;
        repeated.num_key_value_heads = 4;
        Bench ordinary(repeated, dtype);
        const Attention twin(ordinary.options, ordinary.weights, "attention", 0);
        ASSERT_EQ(ordinary.params.size(), grouped.params.size());
        for (size_t i = 0; i < ordinary.params.size(); ++i) {
          const at::Tensor from = grouped.params[i].tensor, to = ordinary.params[i].tensor;
          if (from.sizes() == to.sizes()) {
            to.copy_(from);
            continue;
          }
          for (int64_t h = 0; h < 4; ++h)  // heads of 4 rows
            to.narrow(0, 4 * h, 4).copy_(from.narrow(0, h * groups / 4 * 4, 4));
        }
        Pass pass{.dtype = dtype};
        const at::Tensor x = test::normal({2, 6, 16}, 1, dtype);
        const at::Tensor y = attention.forward(x, pass);
        EXPECT_LT(y.sub(twin.forward(x, pass)).abs().max().item<double>(),
                  dtype == at::kDouble ? 1e-12 : 1e-5);
        KeyValueCache::Layer cache;
        std::vector<at::Tensor> parts;
        for (const auto& [first, count] : {std::pair<int64_t, int64_t>{0, 4}, {4, 1}, {5, 1}})
          parts.push_back(attention.forward(x.narrow(1, first, count), pass, &cache));
        EXPECT_EQ(cache.keys.size(1), groups);  // the cache is smaller by H/G
        EXPECT_LT(at::cat(parts, 1).sub(y).abs().max().item<double>(), dtype == at::kDouble ? 1e-12 : 1e-5);
        if (dtype != at::kFloat) continue;
        const auto norms = measured_norms();
        Walk walk(*norms);
        const Bound in{.activation = 1.3, .lipschitz = 2.0};
        const Bound bound = attention.bound(in, walk), as_before = twin.bound(in, walk);
        EXPECT_NEAR(bound.lipschitz.to_double() / as_before.lipschitz.to_double(), 1.0, 1e-6);
        EXPECT_NEAR(bound.activation.to_double() / as_before.activation.to_double(), 1.0, 1e-6);
      }
    }
  }
}

TEST(AttentionModule, WithGroupedQueriesHasFewerRowsOfKeysAndValues) {
  TransformerOptions options = test::small_transformer();
  options.num_key_value_heads = 2;
  Bench bench(options);
  const Attention attention(bench.options, bench.weights, "attention", 0);
  for (const Param& param : bench.params) {
    const bool shared = param.role == Role::key || param.role == Role::value;
    EXPECT_EQ(param.tensor.size(0), shared ? 8 : 16) << param.name;
    EXPECT_EQ(param.heads, shared ? 2 : param.role == Role::query ? 4 : 1) << param.name;
  }
  bench.randomize_(0.4);
  const at::Tensor x = test::normal({2, 5, 16}, 1).requires_grad_(true);
  test::expect_gradients([&] { return attention.forward(x, bench.pass); }, bench.tensors(x));
}

// Random weights, several heads, scales and radii: what a search finds stays below the bound.
TEST(AttentionModule, StretchAndActivationStayBelowTheBound) {
  for (const auto& [heads, groups] :
       {std::pair<int64_t, int64_t>{1, 1}, {2, 2}, {4, 4}, {2, 1}, {4, 2}, {4, 1}}) {
    for (const double scale : {0.3, 1.0, 4.0}) {
      for (const bool extras : {false, true}) {
        TransformerOptions options = test::small_transformer();
        options.num_attention_heads = heads;
        options.num_key_value_heads = groups;
        options.softmax_scale = scale;
        options.attention_output_scale = 1.0;
        options.position_bias = options.bias = options.value_norm = extras;
        options.qk_norm_epsilon = 0.05;
        Bench bench(options, at::kFloat, 3 + static_cast<uint64_t>(heads));
        const Attention attention(bench.options, bench.weights, "attention", 0);
        bench.randomize_(0.35, static_cast<uint64_t>(10 * scale) + 5);
        const auto norms = measured_norms();
        Walk walk(*norms);
        const double a = 1.3;
        const Bound bound = attention.bound({.activation = a, .lipschitz = 1.0}, walk);
        Pass pass;
        const auto f = [&](const at::Tensor& x) {
          return attention.forward(x.to(at::kFloat), pass).to(at::kDouble);
        };
        EXPECT_LE(test::observed_stretch(f, {1, 5, 16}, a, 7), bound.lipschitz.to_double() * 1.01);
        for (uint64_t seed = 0; seed < 20; ++seed) {
          const at::Tensor x = test::normal({1, 5, 16}, seed);
          const at::Tensor inside = x.mul(a).div(x.square().mean(-1, true).sqrt());
          EXPECT_LE(test::largest_rms(f(inside)), bound.activation.to_double() * (1 + 1e-6));
        }
      }
    }
  }
}

// Heads that read different tokens: with orthogonal weights the paper's rule says 1, and this example exceeds it.
TEST(AttentionModule, SeveralHeadsExceedThePapersRuleAndKeepOurs) {
  constexpr int64_t kHeads = 4;
  TransformerOptions options = test::small_transformer();
  options.num_attention_heads = kHeads;
  options.positions = PositionKind::none;
  options.attention_output_scale = 1.0;
  options.position_bias = true;
  Bench bench(options, at::kFloat);
  const Attention attention(bench.options, bench.weights, "attention", 0);
  {
    const at::NoGradGuard no_gradients;
    for (const Param& param : bench.params) {
      if (param.role == Role::position_bias) {
        param.tensor.zero_();
        for (int64_t h = 0; h < kHeads; ++h) param.tensor[h][h] = 200.0;  // head h reads h tokens back
      } else if (param.role == Role::value || param.role == Role::attention_output) {
        param.tensor.zero_();
        param.tensor.fill_diagonal_(1.0);
      }
    }
  }
  at::Tensor x = test::normal({1, kHeads, 16}, 1).zero_();
  for (int64_t h = 0; h < kHeads; ++h)
    x[0][kHeads - 1 - h].narrow(0, 4 * h, 4).fill_(2.0);  // RMS 1, all in the head that reads it
  Pass pass;
  const double observed = test::largest_rms(attention.forward(x.to(at::kFloat), pass));
  const auto norms = measured_norms();
  Walk walk(*norms);
  EXPECT_NEAR(observed, 2.0, 1e-5);  // √H, where the paper's activation bound is 1
  EXPECT_LE(observed, attention.bound({}, walk).activation.to_double() * (1 + 1e-6));
}

}  // namespace
}  // namespace bridle
