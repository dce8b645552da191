// The fused pass against the modules' own forward with LibTorch's gradients.
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/randint.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <functional>
#include <stdexcept>

#include "bridle/error.h"
#include "field_count.h"
#include "nn_support.h"
#include "support.h"

namespace bridle {
namespace {

struct Tokens {
  at::Tensor in, out;
};

Tokens some_tokens(const TransformerOptions& options, int64_t batch, int64_t length) {
  const at::Tensor in = test::normal({batch, length}, 7).mul(1e4).to(at::kLong).remainder(options.vocab_size);
  const int64_t classes = options.real_vocab_size == 0 ? options.vocab_size : options.real_vocab_size;
  return {in, test::normal({batch, length}, 8).mul(1e4).to(at::kLong).remainder(classes)};
}

// Weights of the size that training has, none of them zero.
std::unique_ptr<Model> trained_like(const TransformerOptions& options) {
  auto model = make_model(options, 1);
  const at::NoGradGuard no_gradients;
  uint64_t seed = 1;
  for (const Param& param : model->params()) {
    const double deviation =
        is_matrix(param.role) ? 1.0 / std::sqrt(static_cast<double>(param.tensor.size(1))) : 1.0;
    param.tensor.copy_(test::normal(param.tensor.sizes(), seed++).mul(deviation));
  }
  return model;
}

LossAndGradients twin(const Model& model, const Tokens& tokens, Pass pass = {}) {
  const at::Tensor logits = model.forward(tokens.in, pass);
  const at::Tensor flat = logits.reshape({-1, logits.size(-1)}), targets = tokens.out.reshape({-1});
  const at::Tensor loss = at::cross_entropy_loss(flat, targets);
  std::vector<at::Tensor> weights;
  for (const Param& param : model.params()) weights.push_back(param.tensor);
  return {loss.item<double>(), flat.argmax(-1).eq(targets).to(at::kDouble).mean().item<double>(),
          torch::autograd::grad({loss}, weights, {}, false, false, true)};
}

// A bias of keys adds the same to all logits of a row where nothing rotates them: its gradient is zero but for rounding.
double noise(const Param& param) { return param.role == Role::bias ? 3e-4 : 1e-7; }

// `loose`: slopes of the activation jump where a sum is rounded the other way.
void expect_agreement(const Model& model, const Tokens& tokens, const StepKernels& kernels, bool loose) {
  const bool narrow = kernels.element == amx::Element::bfloat16;
  const double tolerance = narrow ? (loose ? 0.06 : 0.03) : (loose ? 2e-3 : 1e-4);
  const Pass pass{.training = true, .dropout = {.seed = 5, .stream = Stream::dropout, .step = 7}};
  test::Fused fused(model, kernels);
  const LossAndGradients plain = twin(model, tokens, pass),
                         seen = fused.run(tokens.in, tokens.out, true, pass);
  EXPECT_NEAR(seen.loss, plain.loss, (narrow ? 0.004 : 4e-6) * plain.loss);
  EXPECT_NEAR(seen.accuracy, plain.accuracy, narrow ? 0.05 : 1e-9);
  ASSERT_EQ(seen.gradients.size(), plain.gradients.size());
  for (size_t i = 0; i < plain.gradients.size(); ++i) {
    const double size = plain.gradients[i].norm().item<double>();
    const double error = seen.gradients[i].sub(plain.gradients[i]).norm().item<double>();
    // Where a maximum stands jumps as well, and what decays get depends on that alone.
    const double jumps = !narrow || !loose ? 1.0 : model.params()[i].role == Role::memory_decay ? 8.0 : 3.0;
    EXPECT_LT(error, jumps * tolerance * size + (narrow ? 1.0 : 0.01) * noise(model.params()[i]))
        << model.params()[i].name;
  }
  EXPECT_NEAR(fused.run(tokens.in, tokens.out, false, pass).loss, seen.loss, 1e-9);
}

struct Case {
  const char* name;
  TransformerOptions options;
  int64_t batch, length;
};

std::vector<Case> cases() {
  const TransformerOptions base{.vocab_size = 33,
                                .hidden_size = 64,
                                .num_hidden_layers = 2,
                                .num_attention_heads = 4,
                                .max_position_embeddings = 200,
                                .softmax_scale = 4.0,
                                .final_scale = 1.5};
  std::vector<Case> all = {
      {"whole blocks", base, 9, 64}, {"one sequence", base, 1, 32}, {"long", base, 2, 200}};
  const auto add = [&](const char* name, int64_t batch, int64_t length, auto change) {
    TransformerOptions options = base;
    change(options);
    all.push_back({name, options, batch, length});
  };
  add("ragged sizes", 5, 45, [](TransformerOptions& o) {
    o.vocab_size = 41;
    o.real_vocab_size = 37;
    o.logit_bias = true;
    o.hidden_size = 40;
    o.num_attention_heads = 2;
    o.intermediate_size = 50;
  });
  add("position bias, farther than its table", 9, 50, [](TransformerOptions& o) {
    o.position_bias = true;
    o.position_bias_offsets = 20;
    o.logit_bias = true;
    o.positions = PositionKind::none;
  });
  add("learned positions, plain residual, relu", 4, 33, [](TransformerOptions& o) {
    o.positions = PositionKind::learned;
    o.residual = ResidualKind::plain;
    o.activation = ActivationKind::relu;
    o.activation_divisor = 1.0;
  });
  add("erf", 9, 40, [](TransformerOptions& o) {
    o.activation = ActivationKind::gelu;
    o.attention_alpha = 0.5;
    o.mlp_alpha = 0.25;
  });
  add("grouped queries, maxmin", 5, 40, [](TransformerOptions& o) {
    o.num_key_value_heads = 2;
    o.activation = ActivationKind::maxmin;
    o.position_bias = true;
  });
  add("nanoGPT's: LayerNorm, biases, dropout, tied", 5, 48, [](TransformerOptions& o) {
    o.norm = NormLayer::layer_norm;
    o.bias = true;
    o.dropout = 0.2;
    o.positions = PositionKind::learned;
    o.residual = ResidualKind::plain;
    o.activation = ActivationKind::gelu;
    o.activation_divisor = 1.0;
    o.attention_output_scale = 1.0;
    o.tie_embeddings = true;
    o.final_scale = 0.3;
  });
  add("RMSNorm, learned scales", 9, 33, [](TransformerOptions& o) {
    o.norm = NormLayer::rms_norm;
    o.learnable_scales = true;
    o.hidden_size = 40;
    o.num_attention_heads = 2;
  });
  add("tanh, biases, grouped queries", 3, 70, [](TransformerOptions& o) {
    o.norm = NormLayer::tanh;
    o.bias = true;
    o.num_key_value_heads = 1;
  });
  add("abs, learned alpha, window, documents", 5, 100, [](TransformerOptions& o) {
    o.activation = ActivationKind::abs;
    o.learned_alpha = LearnedAlpha::scalar;
    o.attention_alpha = 0.4;
    o.attention_window = 40;
    o.document_token = 7;
    o.position_bias = true;
  });
  add("speedrun's: RMSNorm without gain, QK-norm, ReLU squared, soft cap", 4, 50, [](TransformerOptions& o) {
    o.norm = NormLayer::rms_norm;
    o.norm_gain = false;
    o.qk_norm = true;
    o.activation = ActivationKind::relu_squared;
    o.activation_divisor = 1.0;
    o.logit_soft_cap = 3.0;
    o.residual = ResidualKind::plain;
    o.num_key_value_heads = 2;
  });
  add("CenterNorm, biases, drop path, learned alpha and scales", 9, 33, [](TransformerOptions& o) {
    o.norm = NormLayer::center_norm;
    o.bias = true;
    o.drop_path = 0.4;
    o.dropout = 0.1;
    o.learned_alpha = LearnedAlpha::scalar;
    o.learnable_scales = true;
    o.hidden_size = 40;
    o.num_attention_heads = 2;
    o.qk_norm = true;
  });
  add("vector alpha", 9, 50, [](TransformerOptions& o) { o.learned_alpha = LearnedAlpha::vector; });
  add("vector alpha, LayerNorm, biases, dropout, learned scales, ragged", 5, 33, [](TransformerOptions& o) {
    o.learned_alpha = LearnedAlpha::vector;
    o.norm = NormLayer::layer_norm;
    o.bias = true;
    o.dropout = 0.1;
    o.drop_path = 0.2;
    o.learnable_scales = true;
    o.hidden_size = 40;
    o.num_attention_heads = 2;
  });
  add("LipsFormer's: plain residual, vector alpha, CenterNorm", 4, 45, [](TransformerOptions& o) {
    o.learned_alpha = LearnedAlpha::vector;
    o.residual = ResidualKind::plain;
    o.norm = NormLayer::center_norm;
    o.attention_alpha = o.mlp_alpha = 1.0 / 24.0;
    o.drop_path = 0.3;
  });
  add("plain residual, scalar alpha", 3, 40, [](TransformerOptions& o) {
    o.learned_alpha = LearnedAlpha::scalar;
    o.residual = ResidualKind::plain;
    o.bias = true;
  });
  const auto quadrature = [](TransformerOptions& o) {
    o.mixing = MixingKind::quadrature;
    o.positions = PositionKind::none;
    o.activation = ActivationKind::abs;
    o.activation_divisor = 1.0;
    o.learned_alpha = LearnedAlpha::scalar;
    o.mlp_alpha = 0.5;
    o.memory_channels = 32;
  };
  add("quadrature with memory", 9, 100, quadrature);
  add("quadrature, content heads", 5, 100, [&](TransformerOptions& o) {
    quadrature(o);
    o.content_heads = 2;
    o.content_size = 32;
  });
  add("quadrature, content heads, window, documents, dropout", 3, 150, [&](TransformerOptions& o) {
    quadrature(o);
    o.activation = ActivationKind::gelu;
    o.memory_channels = 0;
    o.content_heads = 3;
    o.content_size = 96;
    o.attention_window = 40;
    o.document_token = 3;
    o.position_bias_offsets = 30;
    o.dropout = 0.2;
  });
  add("quadrature, vector alpha", 2, 64, [&](TransformerOptions& o) {
    quadrature(o);
    o.learned_alpha = LearnedAlpha::vector;
  });
  add("quadrature, the skip in one matrix with the branch", 5, 70, [&](TransformerOptions& o) {
    quadrature(o);
    o.learned_alpha = LearnedAlpha::none;
    o.residual = ResidualKind::quadrature;
    o.activation = ActivationKind::maxmin;
    o.intermediate_size = 90;
    o.bias = true;
  });
  add("quadrature, the same with dropout, nothing that jumps", 4, 50, [&](TransformerOptions& o) {
    quadrature(o);
    o.learned_alpha = LearnedAlpha::none;
    o.residual = ResidualKind::quadrature;
    o.activation = ActivationKind::gelu;
    o.memory_channels = 0;
    o.branch_dropout = 0.2;
    o.drop_path = 0.3;
  });
  add("quadrature, window, documents", 3, 200, [&](TransformerOptions& o) {
    quadrature(o);
    o.attention_window = 40;
    o.document_token = 3;
    o.position_bias_offsets = 30;
  });
  add("quadrature, dropout, nothing that jumps", 5, 70, [&](TransformerOptions& o) {
    quadrature(o);
    o.activation = ActivationKind::gelu;
    o.memory_channels = 0;
    o.dropout = 0.2;
  });
  add("quadrature without memory, one sequence", 1, 45, [&](TransformerOptions& o) {
    quadrature(o);
    o.memory_channels = 0;
    o.num_attention_heads = 3;
    o.hidden_size = 96;
  });
  add("windows in blocks, long and short, documents, half-truncated RoPE", 2, 200, [](TransformerOptions& o) {
    o.attention_window = 64;
    o.window_block = 16;
    o.long_window_layers = {0};
    o.document_token = 3;
    o.rope_half_truncated = true;
    o.rope_theta = 1024.0;
  });
  add("quadrature, windows in blocks", 3, 100, [&](TransformerOptions& o) {
    quadrature(o);
    o.attention_window = 48;
    o.window_block = 12;
    o.long_window_layers = {1};
  });
  add("LipsFormer's attention, dropout of branches", 4, 45, [](TransformerOptions& o) {
    o.norm = NormLayer::center_norm;
    o.bias = true;
    o.qk_norm = o.value_norm = true;
    o.branch_dropout = 0.5;
    o.dropout = 0.1;
  });
  add("normalised values alone, grouped queries", 4, 45, [](TransformerOptions& o) {
    o.value_norm = true;
    o.num_key_value_heads = 2;
  });
  add("long window over many blocks", 2, 200, [](TransformerOptions& o) {
    o.attention_window = 65;
    o.document_token = 3;
  });
  return all;
}

TEST(TransformerFused, AgreesWithItsTwinForEveryShapeAndInstructionSet) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    const auto model = trained_like(c.options);
    const Tokens tokens = some_tokens(c.options, c.batch, c.length);
    // Slopes of ReLU jump, and pairs of MaxMin change places, where a sum is rounded the other way.
    const bool jumps = c.options.activation == ActivationKind::relu ||
                       c.options.activation == ActivationKind::maxmin ||
                       c.options.activation == ActivationKind::abs;
    for (const auto set : {InstructionSet::plain, InstructionSet::avx2, InstructionSet::avx512,
                           InstructionSet::avx512_bf16, InstructionSet::amx}) {
      if (set > instruction_set()) continue;
      SCOPED_TRACE(instruction_set_name(set));
      expect_agreement(*model, tokens, step_kernels(set), jumps);
      if (set > InstructionSet::avx512) continue;
      SCOPED_TRACE("float32");
      expect_agreement(*model, tokens, step_kernels(ValueType::float32, set), jumps);
    }
  }
}

// A batch of documents side by side has the loss of each alone, to float32's rounding.
TEST(TransformerFused, HasTheLossOfDocumentsPackedOrApart) {
  TransformerOptions options = cases()[0].options;
  options.document_token = 7;
  options.attention_window = 32;
  options.window_block = 8;
  const auto model = trained_like(options);
  Tokens packed = some_tokens(options, 1, 96);
  packed.in.masked_fill_(packed.in.eq(7), 8);
  for (const int64_t begin : {0, 40}) packed.in[0][begin] = 7;
  test::Fused fused(*model, step_kernels(ValueType::float32, instruction_set()));
  const auto part = [&](int64_t first, int64_t count) {
    return fused.run(packed.in.narrow(1, first, count), packed.out.narrow(1, first, count), false).loss *
           static_cast<double>(count);
  };
  const double apart = (part(0, 40) + part(40, 56)) / 96.0;
  EXPECT_NEAR(fused.run(packed.in, packed.out, false).loss, apart, 1e-6 * apart);
  options.document_token = -1;
  const auto together = trained_like(options);
  EXPECT_GT(std::abs(twin(*together, packed).loss - apart), 1e-3);
}

// How far windows have grown is the pass's: the same program serves all steps.
TEST(TransformerFused, GrowsItsWindowsWithThePass) {
  TransformerOptions options = cases()[0].options;
  options.attention_window = 64;
  options.window_block = 8;
  options.long_window_layers = {1};
  const Tokens tokens = some_tokens(options, 3, 100);
  const auto model = trained_like(options);
  test::Fused fused(*model, step_kernels(ValueType::float32, instruction_set()));
  std::vector<double> losses;
  for (const double share : {0.0, 0.4, 1.0}) {
    Pass pass{.window_share = share};
    losses.push_back(twin(*model, tokens, pass).loss);
    EXPECT_NEAR(fused.run(tokens.in, tokens.out, true, pass).loss, losses.back(), 4e-6 * losses.back());
  }
  EXPECT_GT(std::abs(losses[0] - losses[1]), 1e-3);
  EXPECT_GT(std::abs(losses[1] - losses[2]), 1e-3);
}

TEST(TransformerFused, GivesTheSameBitsOnAnyNumberOfThreads) {
  const TransformerOptions options{.vocab_size = 33,
                                   .hidden_size = 64,
                                   .num_hidden_layers = 2,
                                   .num_attention_heads = 2,
                                   .max_position_embeddings = 64,
                                   .position_bias = true,
                                   .logit_bias = true};
  const auto model = trained_like(options);
  const int before = at::get_num_threads();
  for (const int64_t batch : {2, 21}) {  // all threads on one group, and groups of their own
    const Tokens tokens = some_tokens(options, batch, 64);
    std::vector<LossAndGradients> seen;
    for (const int threads : {1, 2, 3}) {
      at::set_num_threads(threads);
      test::Fused fused(*model);
      seen.push_back(fused.run(tokens.in, tokens.out, true));
      seen.push_back(fused.run(tokens.in, tokens.out, true));  // nothing is left of the first
    }
    at::set_num_threads(before);
    for (const LossAndGradients& other : seen) {
      EXPECT_EQ(other.loss, seen[0].loss);
      for (size_t i = 0; i < other.gradients.size(); ++i)
        EXPECT_TRUE(other.gradients[i].equal(seen[0].gradients[i])) << model->params()[i].name;
    }
  }
}

TEST(TransformerFused, FollowsTheWeightsAndTheShapeOfEachCall) {
  const TransformerOptions options = cases()[0].options;
  const auto model = trained_like(options);
  test::Fused fused(*model);
  const Tokens first = some_tokens(options, 8, 64), second = some_tokens(options, 3, 20);
  fused.run(first.in, first.out, true);
  {
    const at::NoGradGuard no_gradients;
    for (const Param& param : model->params()) param.tensor.mul_(0.5);
  }
  for (const Tokens& tokens : {first, second})
    EXPECT_NEAR(fused.run(tokens.in, tokens.out, true).loss, twin(*model, tokens).loss, 0.01);
}

// Buffers share memory: what a run has left there, NaN too, must not reach the next one.
TEST(TransformerFused, LeavesNothingForTheNextRun) {
  const at::NoGradGuard no_gradients;
  for (const Case& c : cases()) {
    for (const bool gradients : {true, false}) {  // their buffers are laid out differently
      SCOPED_TRACE(c.name);
      const auto model = trained_like(c.options);
      const Tokens tokens = some_tokens(c.options, c.batch, c.length);
      test::Fused fused(*model);
      const LossAndGradients first = fused.run(tokens.in, tokens.out, gradients);
      std::vector<at::Tensor> kept;
      for (const Param& param : model->params()) {
        kept.push_back(param.tensor.clone());
        param.tensor.fill_(std::nan(""));
      }
      EXPECT_TRUE(std::isnan(fused.run(tokens.in, tokens.out, gradients).loss));
      for (size_t i = 0; i < kept.size(); ++i) model->params()[i].tensor.copy_(kept[i]);
      const LossAndGradients again = fused.run(tokens.in, tokens.out, gradients);
      EXPECT_EQ(again.loss, first.loss);
      for (size_t i = 0; i < first.gradients.size(); ++i)
        EXPECT_TRUE(again.gradients[i].equal(first.gradients[i])) << model->params()[i].name;
    }
  }
}

TEST(TransformerFused, RefusesTokensOutsideTheVocabulary) {
  const TransformerOptions options = cases()[0].options;
  const auto model = trained_like(options);
  test::Fused fused(*model);
  Tokens tokens = some_tokens(options, 2, 8);
  tokens.in[1][3] = 33;
  EXPECT_THROW(fused.run(tokens.in, tokens.out, true), InputError);
  tokens.in[1][3] = 3;
  tokens.out[0][0] = -1;
  EXPECT_THROW(fused.run(tokens.in, tokens.out, true), InputError);
}

TEST(TransformerFused, RefusesTokensThatDoNotFit) {
  const TransformerOptions options = cases()[0].options;
  const auto model = trained_like(options);
  test::Fused fused(*model);
  const Tokens tokens = some_tokens(options, 2, 8);
  EXPECT_THROW(fused.run(tokens.in, tokens.out.narrow(1, 0, 4), true), InputError);
  EXPECT_THROW(fused.run(tokens.in.to(at::kInt), tokens.out, true), InputError);
  EXPECT_THROW(fused.run(tokens.in.narrow(0, 0, 0), tokens.out.narrow(0, 0, 0), true), InputError);
  EXPECT_THROW(fused.run(tokens.in.narrow(1, 0, 0), tokens.out.narrow(1, 0, 0), true), InputError);
}

TEST(TransformerFused, SeesNewWeightsAndWhatIsWrongWithThem) {
  const TransformerOptions options = cases()[0].options;
  const auto model = trained_like(options);
  const Tokens tokens = some_tokens(options, 2, 8);
  Pass pass{.dtype = at::kBFloat16};
  const auto loss = [&] { return model->fused_loss(tokens.in, tokens.out, pass, false)->loss; };
  EXPECT_GT(std::abs(loss() - std::log(33.0)), 1e-3);
  for (const Param& param : model->params())
    at::Tensor(param.tensor).set_data(param.tensor.detach().mul(0.0));
  EXPECT_NEAR(loss(), std::log(33.0), 1e-6);
  const at::NoGradGuard no_gradients;
  model->params()[3].tensor[0][0] = std::nan("");
  EXPECT_TRUE(std::isnan(loss()));
}

TEST(TransformerFused, IsTakenForBfloat16AndFloat32Passes) {
  const TransformerOptions options = cases()[0].options;
  const Tokens tokens = some_tokens(options, 2, 32);
  const auto model = trained_like(options);
  const auto has_one = [&](Pass pass) {
    return model->fused_loss(tokens.in, tokens.out, pass, true).has_value();
  };
  EXPECT_TRUE(has_one({.dtype = at::kBFloat16}));
  EXPECT_TRUE(has_one({.dtype = at::kBFloat16, .margin = 0.5}));
  EXPECT_TRUE(has_one({.dtype = at::kFloat}));
  EXPECT_FALSE(has_one({.dtype = at::kDouble}));
  KeyValueCache cache;
  EXPECT_FALSE(has_one({.dtype = at::kBFloat16, .cache = &cache}));
  EXPECT_EQ(model->why_not_fused({.dtype = at::kBFloat16}), "");
  EXPECT_EQ(model->why_not_fused({.dtype = at::kFloat}), "");
  EXPECT_EQ(model->why_not_fused({.dtype = at::kDouble}), "activations are neither bfloat16 nor float32");
}

TEST(TransformerFused, RecordsTheStatisticsOfItsTwin) {
  const TransformerOptions options = cases()[0].options;
  const Tokens tokens = some_tokens(options, 6, 45);
  const auto model = trained_like(options);
  ActivationStatistics plain, fused;
  Pass of_twin{.statistics = &plain}, of_fused{.dtype = at::kBFloat16, .statistics = &fused};
  model->forward(tokens.in, of_twin);
  ASSERT_TRUE(model->fused_loss(tokens.in, tokens.out, of_fused, false).has_value());
  ASSERT_EQ(fused.layers.size(), plain.layers.size());
  for (const auto& [name, layer] : plain.layers) {
    EXPECT_NEAR(fused.layers.at(name).largest_rms, layer.largest_rms, 0.02 * layer.largest_rms) << name;
    EXPECT_NEAR(fused.layers.at(name).largest_entry, layer.largest_entry, 0.03 * layer.largest_entry) << name;
  }
}

TEST(TransformerFused, DropsOtherEntriesInEveryUse) {
  TransformerOptions options = cases()[0].options;
  options.dropout = 0.5;
  const auto model = trained_like(options);
  const Tokens tokens = some_tokens(options, 8, 32);
  Pass pass{.dtype = at::kBFloat16, .training = true, .dropout = {.seed = 1, .stream = Stream::dropout}};
  const double first = model->fused_loss(tokens.in, tokens.out, pass, false)->loss;
  EXPECT_EQ(pass.dropout_calls,
            1U + 3U * 2U);  // the embedding; weights, attention and feed-forward of each block
  const double second = model->fused_loss(tokens.in, tokens.out, pass, false)->loss;
  EXPECT_GT(std::abs(first - second), 1e-4);
  pass.dropout_calls = 0;
  EXPECT_EQ(model->fused_loss(tokens.in, tokens.out, pass, false)->loss, first);
  pass.training = false;
  EXPECT_EQ(model->fused_loss(tokens.in, tokens.out, pass, false)->loss,
            model->fused_loss(tokens.in, tokens.out, pass, false)->loss);
}

// One entry per field of TransformerOptions: a value that is not the default, and whether the fused pass computes it. A field
// that is missing here fails the count below; it is not supported until Transformer::why_not_fused, the allow-list, says so.
struct Field {
  const char* name;
  std::function<void(TransformerOptions&)> change;
  const char* why_not = "";  // it is supported
};

std::vector<Field> every_field() {
  using O = TransformerOptions;
  return {
      {"vocab_size", [](O& o) { o.vocab_size = 40; }},
      {"real_vocab_size", [](O& o) { o.real_vocab_size = 30; }},
      {"hidden_size", [](O& o) { o.hidden_size = 32; }},
      {"num_hidden_layers", [](O& o) { o.num_hidden_layers = 1; }},
      {"mixing",
       [](O& o) {
         o.mixing = MixingKind::quadrature;
         o.positions = PositionKind::none;
       }},
      {"memory_channels",
       [](O& o) {
         o.mixing = MixingKind::quadrature;
         o.positions = PositionKind::none;
         o.memory_channels = 64;
       }},
      {"content_heads",
       [](O& o) {
         o.mixing = MixingKind::quadrature;
         o.positions = PositionKind::none;
         o.content_heads = 2;
       }},
      {"content_size",
       [](O& o) {
         o.mixing = MixingKind::quadrature;
         o.positions = PositionKind::none;
         o.content_heads = 1;
         o.content_size = 32;
       }},
      {"num_attention_heads", [](O& o) { o.num_attention_heads = 2; }},
      {"num_key_value_heads", [](O& o) { o.num_key_value_heads = 2; }},
      {"intermediate_size", [](O& o) { o.intermediate_size = 50; }},
      {"max_position_embeddings", [](O& o) { o.max_position_embeddings = 100; }},
      {"positions", [](O& o) { o.positions = PositionKind::learned; }},
      {"rope_theta", [](O& o) { o.rope_theta = 100.0; }},
      {"rope_half_truncated", [](O& o) { o.rope_half_truncated = true; }},
      {"activation", [](O& o) { o.activation = ActivationKind::maxmin; }},
      {"activation_divisor", [](O& o) { o.activation_divisor = 2.0; }},
      {"gated", [](O& o) { o.gated = true; }, "model.gated"},
      {"softmax_scale", [](O& o) { o.softmax_scale = 1.0; }},
      {"attention_output_scale", [](O& o) { o.attention_output_scale = 1.0; }},
      {"residual", [](O& o) { o.residual = ResidualKind::plain; }},
      {"attention_alpha", [](O& o) { o.attention_alpha = 0.5; }},
      {"mlp_alpha", [](O& o) { o.mlp_alpha = 0.3; }},
      {"learned_alpha", [](O& o) { o.learned_alpha = LearnedAlpha::scalar; }},
      {"position_bias", [](O& o) { o.position_bias = true; }},
      {"position_bias_offsets",
       [](O& o) {
         o.position_bias = true;
         o.position_bias_offsets = 10;
       }},
      {"position_bias_start",
       [](O& o) {
         o.position_bias = true;
         o.position_bias_start = 3.0;
       }},
      {"position_bias_dilation",
       [](O& o) {
         o.position_bias = true;
         o.position_bias_dilation = 2;
       }},
      {"qk_norm", [](O& o) { o.qk_norm = true; }},
      {"qk_norm_epsilon",
       [](O& o) {
         o.qk_norm = true;
         o.qk_norm_epsilon = 0.1;
       }},
      {"value_norm", [](O& o) { o.value_norm = true; }},
      {"attention_window", [](O& o) { o.attention_window = 5; }},
      {"window_block",
       [](O& o) {
         o.attention_window = 12;
         o.window_block = 4;
       }},
      {"long_window_layers",
       [](O& o) {
         o.attention_window = 12;
         o.long_window_layers = {1};
       }},
      {"document_token", [](O& o) { o.document_token = 2; }},
      {"logit_bias", [](O& o) { o.logit_bias = true; }},
      {"norm", [](O& o) { o.norm = NormLayer::rms_norm; }},
      {"norm_epsilon",
       [](O& o) {
         o.norm = NormLayer::layer_norm;
         o.norm_epsilon = 0.1;
       }},
      {"norm_gain",
       [](O& o) {
         o.norm = NormLayer::rms_norm;
         o.norm_gain = false;
       }},
      {"norm_after",
       [](O& o) {
         o.norm = NormLayer::center_norm;
         o.norm_after = true;
       },
       "model.norm_after"},
      {"learnable_scales", [](O& o) { o.learnable_scales = true; }},
      {"bias", [](O& o) { o.bias = true; }},
      {"tie_embeddings", [](O& o) { o.tie_embeddings = true; }},
      {"dropout", [](O& o) { o.dropout = 0.1; }},
      {"branch_dropout", [](O& o) { o.branch_dropout = 0.3; }},
      {"drop_path", [](O& o) { o.drop_path = 0.3; }},
      {"logit_soft_cap", [](O& o) { o.logit_soft_cap = 2.0; }},
      {"initialization", [](O& o) { o.initialization = Initialization::normal; }},
      {"final_scale", [](O& o) { o.final_scale = -3.0; }},
  };
}

TEST(TransformerFused, IsAskedAboutEveryFieldOfTheOptionsAndOfThePass) {
  EXPECT_EQ(every_field().size(), test::field_count<TransformerOptions>());
  EXPECT_EQ(test::field_count<TransformerOptions>(), 49U);
  EXPECT_EQ(test::field_count<Pass>(), 10U);
}

TEST(TransformerFused, ComputesEveryFieldAsItIsOrSaysNo) {
  for (const Field& field : every_field()) {
    SCOPED_TRACE(field.name);
    Pass pass{.dtype = at::kBFloat16, .training = true, .dropout = {.seed = 3, .stream = Stream::dropout}};
    Pass of_twin = pass;
    of_twin.dtype = at::kFloat;
    TransformerOptions options = cases()[0].options;
    field.change(options);
    const auto model = trained_like(options);
    const Tokens tokens = some_tokens(options, 4, 40);
    EXPECT_EQ(model->why_not_fused(pass), field.why_not);
    const auto fused = model->fused_loss(tokens.in, tokens.out, pass, true);
    ASSERT_EQ(fused.has_value(), std::string(field.why_not).empty());
    if (!fused) continue;
    const LossAndGradients plain = twin(*model, tokens, of_twin);
    EXPECT_NEAR(fused->loss, plain.loss, 0.004 * plain.loss);
    const double tolerance = options.activation == ActivationKind::maxmin ? 0.06 : 0.03;
    for (size_t i = 0; i < plain.gradients.size(); ++i)
      EXPECT_LT(fused->gradients[i].sub(plain.gradients[i]).norm().item<double>(),
                tolerance * plain.gradients[i].norm().item<double>() + noise(model->params()[i]))
          << model->params()[i].name;
  }
}

}  // namespace
}  // namespace bridle
