// Networks at the edges of float32 and bfloat16: sums that bfloat16 cannot hold, later tokens that overflow, scalars and weights
// beyond a precision's range, denormals that are flushed. What a program computes there lies within its stated
// error, or the error says that nothing is known.
#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/words.h"
#include "nn/activation.h"
#include "nn/enclosure.h"
#include "nn/norm.h"
#include "nn_support.h"
#include "support.h"

namespace bridle {
namespace {

// A model whose weights are zero but for those that are set.
class Sketch {
 public:
  explicit Sketch(const ModelOptions& options) : model_(make_model(options, 1)) {
    const at::NoGradGuard no_gradients;
    for (const Param& param : model_->params()) param.tensor.zero_();
  }
  at::Tensor weight(const std::string& name) const {
    for (const Param& param : model_->params())
      if (param.name.ends_with(name)) return param.tensor.detach();
    throw std::out_of_range(name);
  }
  Sketch& diagonal(const std::string& name, double value) {
    weight(name).copy_(at::eye(weight(name).size(0), weight(name).size(1)).mul(value));
    return *this;
  }
  Sketch& entry(const std::string& name, int64_t row, int64_t column, double value) {
    weight(name)[row][column].fill_(value);
    return *this;
  }
  const Model& model() const { return *model_; }

 private:
  std::unique_ptr<Model> model_;
};

TransformerOptions small(int64_t size, int64_t tokens) {
  return {.vocab_size = 4,
          .hidden_size = size,
          .num_hidden_layers = 1,
          .num_attention_heads = 1,
          .intermediate_size = 2,
          .max_position_embeddings = tokens,
          .positions = PositionKind::none,
          .attention_output_scale = 1.0,
          .attention_alpha = 0.5,
          .mlp_alpha = 1e-9};
}

MlpOptions layers(std::vector<int64_t> sizes, double final_scale = 1.0) {
  return {.layer_sizes = std::move(sizes), .final_scale = final_scale};
}

at::Tensor tokens(std::vector<int64_t> ids) {
  return at::tensor(ids, at::kLong).view({1, static_cast<int64_t>(ids.size())});
}

at::Tensor pixels(double first) { return at::tensor({first, 0.0}, at::kFloat).view({1, 2}); }

enum class Known { some, none };

// Both programs, with denormals kept and flushed. `float32` says whether float32's error may be finite.
void expect_covered(const Sketch& sketch, const at::Tensor& inputs, Known float32, const char* what) {
  const at::NoGradGuard no_gradients;
  for (const Arithmetic& arithmetic : {Arithmetic::float32(), Arithmetic::bfloat16()}) {
    ErrorWalk walk({{arithmetic, 0.0}});
    Pass wide{.dtype = at::kDouble}, narrow{.dtype = arithmetic.dtype};
    const LogitEnclosure all = sketch.model().enclose(sketch.model().embed(inputs, wide), walk);
    const at::Tensor allowed = all.error[1].add(all.error[0]);
    for (const bool flush : {false, true}) {
      at::globalContext().setFlushDenormal(flush);
      const at::Tensor program = sketch.model().forward(inputs, narrow).to(at::kDouble);
      at::globalContext().setFlushDenormal(false);
      const at::Tensor off = program.sub(all.logits).abs().amax(-1);
      EXPECT_TRUE(off.le(allowed).logical_or(allowed.isinf()).all().item<bool>())
          << what << " in " << arithmetic.name << (flush ? ", flushed" : "") << ": off " << off
          << ", allowed " << allowed;
    }
    if (arithmetic.dtype == at::kFloat) {
      EXPECT_EQ(allowed.isinf().any().item<bool>(), float32 == Known::none) << what;
    }
  }
}

TEST(AProgram, MayAddUpAttentionsProductsInBfloat16) {
  const at::NoGradGuard no_gradients;
  TransformerOptions options =
      small(98, 2);  // 98 products of nearly one on top of 352: bfloat16 stays at 352
  options.softmax_scale = 98 * 2.75 / 351.0;
  options.attention_alpha = 0.99;
  Sketch content(options);
  const at::Tensor table = content.weight("embed_tokens.weight");
  table[0][0].fill_(22.0);
  table[0][97].fill_(20.0);
  table[1].fill_(0.99609375);
  table[1][0].fill_(16.0);
  table[1][97].fill_(-20.0);
  content.diagonal("q_proj.weight", 1.0).diagonal("k_proj.weight", 1.0);
  content.entry("q_proj.weight", 97, 97, 0.0).entry("k_proj.weight", 97, 97, 0.0);
  content.entry("v_proj.weight", 97, 97, -1.0).entry("o_proj.weight", 97, 97, 1.0);
  content.entry("lm_head.weight", 0, 97, -1.0).entry("lm_head.weight", 1, 97, 1.0);
  expect_covered(content, tokens({0, 1}), Known::some, "content");

  Sketch values(small(8, 300));  // means of 300 equal values
  values.weight("embed_tokens.weight").narrow(1, 0, 1).fill_(1.0);
  values.diagonal("v_proj.weight", 1.0).diagonal("o_proj.weight", 1.0).entry("lm_head.weight", 1, 0, 1.0);
  expect_covered(values, at::zeros({1, 300}, at::kLong), Known::some, "values");
}

TEST(AProgram, MultipliesMaskedTokensToo) {
  const at::NoGradGuard no_gradients;
  Sketch value(small(2, 2));
  value.entry("embed_tokens.weight", 0, 0, 1.0).entry("embed_tokens.weight", 1, 1, 0x1p126);
  value.diagonal("v_proj.weight", 16.0).diagonal("o_proj.weight", 1.0).diagonal("lm_head.weight", 1.0);
  expect_covered(value, tokens({0, 1}), Known::none, "a later value overflows");

  Sketch logit(small(2, 2));
  logit.entry("embed_tokens.weight", 0, 0, 1.0).entry("embed_tokens.weight", 1, 0, 0x1p60);
  logit.diagonal("q_proj.weight", 0x1p35).diagonal("k_proj.weight", 0x1p35).diagonal("lm_head.weight", 1.0);
  expect_covered(logit, tokens({0, 1}), Known::none, "a later logit overflows");
}

TEST(AProgram, HasScalarsOfItsOwnRange) {
  const at::NoGradGuard no_gradients;
  TransformerOptions options = small(2, 2);
  options.softmax_scale = 128.0;
  Sketch scaled(options);
  scaled.weight("embed_tokens.weight").narrow(1, 0, 1).fill_(1.0);
  scaled.diagonal("q_proj.weight", 0x1p123)
      .diagonal("k_proj.weight", 0x1p-123)
      .diagonal("lm_head.weight", 1.0);
  expect_covered(scaled, tokens({0, 1}), Known::none, "a scaled query overflows");

  for (const auto& [scale, pixel] : {std::pair{1e40, 1e-10}, std::pair{1e-46, 1e37}}) {
    Sketch final(layers({2, 2, 2}, scale));
    final.diagonal("layers.0.weight", 1.0)
        .entry("layers.1.weight", 0, 0, 0.5)
        .entry("layers.1.weight", 1, 0, 1.0);
    expect_covered(final, pixels(pixel), Known::none, "final scale");
  }
  for (const double divisor : {1e39, 1e-46}) {
    options = small(2, 1);
    options.activation = ActivationKind::relu;
    options.activation_divisor = divisor;
    options.mlp_alpha = 0.5;
    Sketch active(options);
    active.weight("embed_tokens.weight").narrow(1, 0, 1).fill_(1.0);
    active.diagonal("up_proj.weight", divisor > 1 ? 0x1p100 : 0x1p-100).entry("lm_head.weight", 1, 0, 1.0);
    active.diagonal("down_proj.weight", divisor > 1 ? 0x1p40 : 0x1p-60);
    expect_covered(active, tokens({0}), Known::none, "divisor");
  }
}

TEST(AProgram, MayFlushDenormals) {
  const at::NoGradGuard no_gradients;
  Sketch input(layers({2, 2, 2}));
  input.diagonal("layers.0.weight", 0x1p120)
      .entry("layers.1.weight", 0, 0, 0.5)
      .entry("layers.1.weight", 1, 0, 1.0);
  expect_covered(input, pixels(0x1p-140), Known::some, "input");

  Sketch weight(layers({32, 32, 2}));
  weight.diagonal("layers.0.weight", 0x1p-130).entry("layers.1.weight", 1, 0, 0x1p30);
  const at::Tensor x = at::zeros({64, 32});
  x.narrow(1, 0, 1).fill_(0x1p100);
  expect_covered(weight, x, Known::some, "weight");
  weight.diagonal("layers.0.weight", 1.0).entry("layers.1.weight", 1, 0, 0x1p-140);
  x.narrow(1, 0, 1).fill_(0x1p120);
  expect_covered(weight, x, Known::some, "head");

  TransformerOptions options = small(2, 2);
  options.softmax_scale = 0x1p-29;
  Sketch query(options);
  query.entry("embed_tokens.weight", 0, 0, 1.0).entry("embed_tokens.weight", 1, 0, -1.0);
  query.diagonal("q_proj.weight", 0x1p-97).diagonal("k_proj.weight", 0x1p120);
  query.diagonal("v_proj.weight", 1.0).diagonal("o_proj.weight", 1.0).diagonal("lm_head.weight", 1.0);
  expect_covered(query, tokens({0, 1}), Known::some, "query");

  options = small(4, 1);
  options.norm = NormLayer::rms_norm;
  options.norm_epsilon = 0x1p20;
  Sketch norm(options);
  norm.weight("embed_tokens.weight").narrow(1, 0, 1).fill_(0x1p-120);
  norm.weight("model.norm.weight").fill_(0x1p120);
  norm.entry("lm_head.weight", 1, 0, 1.0);
  expect_covered(norm, tokens({0}), Known::some, "norm");
}

TEST(AProgram, CannotHoldEveryFloat32InBfloat16) {
  const at::NoGradGuard no_gradients;
  Sketch input(layers({2, 2, 2}));
  input.diagonal("layers.0.weight", 0x1p-20)
      .entry("layers.1.weight", 0, 0, 0.5)
      .entry("layers.1.weight", 1, 0, 1.0);
  expect_covered(input, pixels(3.4028234e38), Known::none, "input");
  input.diagonal("layers.0.weight", 3.4028234e38);
  expect_covered(input, pixels(1e-20), Known::none, "weight");

  TransformerOptions options = small(4, 1);
  options.norm = NormLayer::rms_norm;
  options.norm_epsilon = 1.0;
  Sketch gain(options);
  gain.weight("embed_tokens.weight").narrow(1, 0, 1).fill_(0x1p-60);
  gain.weight("model.norm.weight").fill_(3.4028234e38);
  gain.entry("lm_head.weight", 1, 0, 1.0);
  expect_covered(gain, tokens({0}), Known::none, "gain");
}

// By themselves, with an input that has no error: nothing that earlier modules allow can hide what they lose.
TEST(AModulesProgram, StaysWithinWhatTheModuleItselfAllows) {
  const at::NoGradGuard no_gradients;
  for (uint64_t seed = 0; seed < 600; ++seed) {
    const Arithmetic arithmetic = seed % 2 == 0 ? Arithmetic::float32() : Arithmetic::bfloat16();
    ErrorWalk walk({{arithmetic, 0.0}});
    const int64_t size = std::array<int64_t, 3>{4, 64, 1000}.at(seed / 2 % 3);
    const double mean = std::array{0.0, 0.5, 3.0, 30.0}.at(seed / 6 % 4);
    const at::Tensor x = test::normal({8, size}, seed).add(mean).to(arithmetic.dtype).to(at::kDouble);
    const Enclosure in{x, at::zeros({2, 8}, at::kDouble), at::zeros({2, 8}, at::kDouble)};
    const auto expect_inside = [&](const Enclosure& out, const at::Tensor& program, const std::string& what) {
      const at::Tensor off = program.to(at::kDouble).sub(out.values).square().sum(-1).sqrt();
      EXPECT_TRUE(off.le(out.error[1].add(out.error[0])).all().item<bool>()) << what << ", seed " << seed;
    };
    for (const NormLayer kind : {NormLayer::layer_norm, NormLayer::rms_norm, NormLayer::tanh}) {
      TransformerOptions options = small(size, 4);
      options.norm = kind;
      options.norm_epsilon = seed % 5 == 0 ? 1.003 : 1e-5;
      test::Bench bench(options, at::kFloat);
      const Norm norm(bench.options, bench.weights, "norm");
      expect_inside(norm.enclose(in, walk), norm.forward(x.to(arithmetic.dtype)), word(kind));
    }
    const double divisor = 1.0 + 0.999 * 0x1p-24 + 0x1p-22 * static_cast<double>(seed % 64);
    for (const ActivationKind kind : all_values<ActivationKind>()) {
      const Activation activation(kind, divisor);
      expect_inside(activation.enclose(in, walk), activation.forward(x.to(arithmetic.dtype)), word(kind));
    }
  }
}

}  // namespace
}  // namespace bridle
