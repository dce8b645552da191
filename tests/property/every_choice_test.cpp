// Every value of every enum of bridle/architecture.h goes through all that must know it: the forward pass, the bound, the
// enclosure of rounding, config.json, the certificate and both of its checkers, and the fused pass, which knows it or says no.
// A new value is walked by itself: where one of them has forgotten it, this fails.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>

#include "base/subprocess.h"
#include "base/words.h"
#include "exact_forward.h"
#include "file_support.h"
#include "io/certificate_file.h"
#include "io/model_folder.h"
#include "nn/enclosure.h"
#include "nn_support.h"
#include "support.h"

namespace bridle {
namespace {

struct Case {
  std::string name;
  ModelOptions options;
  friend void PrintTo(const Case& of, std::ostream* out) { *out << of.name; }
};

TransformerOptions wide_transformer() {
  return {.vocab_size = 33,
          .hidden_size = 64,
          .num_hidden_layers = 2,
          .num_attention_heads = 4,
          .max_position_embeddings = 64,
          .softmax_scale = 4.0,
          .final_scale = 2.0};
}

// One transformer per value of a member that is an enum.
template <class Enum>
void add_transformers(std::vector<Case>& all, const char* key, Enum TransformerOptions::*member) {
  for (const Enum value : all_values<Enum>()) {
    TransformerOptions options = wide_transformer();
    options.*member = value;
    all.push_back({fmt::format("transformer, {} {}", key, word(value)), options});
  }
}

template <class Enum>
void add_mlps(std::vector<Case>& all, const char* key, Enum MlpOptions::*member) {
  for (const Enum value : all_values<Enum>()) {
    MlpOptions options{.layer_sizes = {64, 96, 32, 10}, .final_scale = 1.5};
    options.*member = value;
    all.push_back({fmt::format("mlp, {} {}", key, word(value)), options});
  }
}

std::vector<Case> every_choice() {
  std::vector<Case> all;
  add_transformers(all, "activation", &TransformerOptions::activation);
  add_transformers(all, "norm", &TransformerOptions::norm);
  for (const ResidualKind value : all_values<ResidualKind>()) {
    TransformerOptions options = wide_transformer();
    options.residual = value;
    if (value == ResidualKind::quadrature) {  // goes with mixing of the same kind
      options.mixing = MixingKind::quadrature;
      options.positions = PositionKind::none;
    }
    all.push_back({fmt::format("transformer, residual {}", word(value)), options});
  }
  add_transformers(all, "learned alpha", &TransformerOptions::learned_alpha);
  add_transformers(all, "positions", &TransformerOptions::positions);
  add_transformers(all, "initialization", &TransformerOptions::initialization);
  for (const MixingKind value : all_values<MixingKind>()) {
    TransformerOptions options = wide_transformer();
    options.mixing = value;
    options.positions = PositionKind::none;  // as quadrature wants it
    all.push_back({fmt::format("transformer, mixing {}", word(value)), options});
  }
  add_mlps(all, "activation", &MlpOptions::activation);
  add_mlps(all, "initialization", &MlpOptions::initialization);
  for (const int64_t groups : {1, 2}) {
    TransformerOptions options = wide_transformer();
    options.num_key_value_heads = groups;
    options.bias = groups == 1;
    all.push_back({fmt::format("transformer, heads of keys and values {}", groups), options});
  }
  const auto add = [&](const char* name, auto change) {
    TransformerOptions options = wide_transformer();
    change(options);
    all.push_back({fmt::format("transformer, {}", name), options});
  };
  for (const LearnedAlpha alpha : all_values<LearnedAlpha>())
    add(fmt::format("plain residual, learned alpha {}", word(alpha)).c_str(), [&](TransformerOptions& o) {
      o.residual = ResidualKind::plain;
      o.learned_alpha = alpha;
    });
  add("vector alpha and biases", [](TransformerOptions& o) {
    o.learned_alpha = LearnedAlpha::vector;
    o.bias = true;
  });
  add("learned alpha and biases", [](TransformerOptions& o) {
    o.learned_alpha = LearnedAlpha::scalar;
    o.bias = true;
  });
  add("normalised queries and keys", [](TransformerOptions& o) {
    o.qk_norm = true;
    o.qk_norm_epsilon = 0.01;
  });
  add("window", [](TransformerOptions& o) { o.attention_window = 3; });
  add("soft cap", [](TransformerOptions& o) { o.logit_soft_cap = 1.5; });
  add("norms without gain", [](TransformerOptions& o) {
    o.norm = NormLayer::rms_norm;
    o.norm_gain = false;
  });
  add("normalised values", [](TransformerOptions& o) {
    o.value_norm = true;
    o.qk_norm_epsilon = 0.01;
    o.bias = true;
  });
  add("normalised queries, keys and values, grouped", [](TransformerOptions& o) {
    o.qk_norm = o.value_norm = true;
    o.qk_norm_epsilon = 0.01;
    o.num_key_value_heads = 2;
  });
  add("windows in blocks, long and short", [](TransformerOptions& o) {
    o.attention_window = 4;
    o.window_block = 2;
    o.long_window_layers = {0};
  });
  add("half-truncated RoPE", [](TransformerOptions& o) {
    o.rope_half_truncated = true;
    o.rope_theta = 1024.0;
  });
  for (const NormLayer norm : {NormLayer::rms_norm, NormLayer::center_norm})
    add(fmt::format("norms after residuals, {}", word(norm)).c_str(), [&](TransformerOptions& o) {
      o.norm = norm;
      o.norm_after = true;
      o.bias = true;
    });
  const auto quadrature = [](TransformerOptions& o) {
    o.mixing = MixingKind::quadrature;
    o.positions = PositionKind::none;
    o.activation = ActivationKind::abs;
    o.activation_divisor = 1.0;
    o.learned_alpha = LearnedAlpha::scalar;
  };
  add("quadrature", quadrature);
  add("quadrature with memory", [&](TransformerOptions& o) {
    quadrature(o);
    o.memory_channels = 32;
    o.attention_window = 3;
    o.position_bias_offsets = 4;
  });
  add("quadrature with content heads", [&](TransformerOptions& o) {
    quadrature(o);
    o.content_heads = 2;
    o.content_size = 64;
    o.attention_window = 3;
  });
  add("quadrature with content heads and memory", [&](TransformerOptions& o) {
    quadrature(o);
    o.memory_channels = 32;
    o.content_heads = 1;
    o.position_bias_offsets = 4;
  });
  add("gated, silu", [](TransformerOptions& o) {
    o.gated = true;
    o.activation = ActivationKind::silu;
    o.activation_divisor = 1.0;
  });
  add("gated with biases", [](TransformerOptions& o) {
    o.gated = o.bias = true;
    o.activation = ActivationKind::silu;
  });
  add("gated with grouped queries and norms", [](TransformerOptions& o) {
    o.gated = true;
    o.activation = ActivationKind::silu;
    o.norm = NormLayer::rms_norm;
    o.norm_gain = false;
    o.residual = ResidualKind::plain;
    o.num_key_value_heads = 2;
  });
  add("gated, relu squared", [](TransformerOptions& o) {
    o.gated = true;
    o.activation = ActivationKind::relu_squared;
  });
  for (const ActivationKind kind : {ActivationKind::relu, ActivationKind::tanh, ActivationKind::gelu})
    all.push_back(
        {fmt::format("mlp with biases, {}", word(kind)),
         MlpOptions{.layer_sizes = {64, 96, 32, 10}, .activation = kind, .bias = true, .final_scale = 1.5}});
  add("center_norm with bias", [](TransformerOptions& o) {
    o.norm = NormLayer::center_norm;
    o.bias = true;
  });
  return all;
}

// Weights of the size that training has, none of them zero.
std::unique_ptr<Model> trained_like(const ModelOptions& options) {
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

at::Tensor integers(at::IntArrayRef shape, int64_t end, uint64_t seed) {
  return test::normal(shape, seed).mul(1e4).to(at::kLong).remainder(end);
}

// What the embedding gives, or pixels.
at::Tensor some_inputs(const ModelShape& shape, int64_t count, int64_t length) {
  return shape.input == InputKind::tokens ? test::normal({count, length, shape.size}, 3, at::kFloat)
                                          : test::normal({count, shape.size}, 3, at::kFloat).mul(0.5);
}

// A network whose rounding the enclosure can follow to the end: one block, no sharp softmax, no norm of a tiny vector.
ModelOptions calm(ModelOptions options) {
  if (auto* o = std::get_if<TransformerOptions>(&options)) {
    o->num_hidden_layers = 1;
    o->softmax_scale = 1.0;
    o->norm_epsilon = 0.1;
  }
  return options;
}

class EveryChoice : public testing::TestWithParam<Case> {};

TEST_P(EveryChoice, HasAForwardPassABoundAndAnEnclosure) {
  const at::NoGradGuard no_gradients;
  const auto model = trained_like(calm(GetParam().options));
  const at::Tensor x = some_inputs(model->shape(), 2, 5);
  Pass narrow, wide{.dtype = at::kDouble};
  const at::Tensor program = model->forward_from(x, narrow).to(at::kDouble);
  ASSERT_TRUE(program.isfinite().all().item<bool>());
  const auto norms = measured_norms();
  Walk walk(*norms);
  const Bound bound = model->bound(model->input_bound(*norms), walk);
  EXPECT_FALSE(bound.lipschitz.is_unbounded());
  EXPECT_FALSE(bound.activation.is_unbounded());
  EXPECT_GT(bound.lipschitz.to_double(), 0.0);
  ErrorWalk errors({{Arithmetic::float32(), 0.0}});
  const LogitEnclosure logits = model->enclose(x.to(at::kDouble), errors);
  const at::Tensor off = program.sub(model->forward_from(x.to(at::kDouble), wide)).abs().amax(-1);
  const at::Tensor allowed = logits.error[1].add(logits.error[0]);
  EXPECT_TRUE(off.le(allowed).all().item<bool>()) << off.max() << " " << allowed.min();
  EXPECT_LT(allowed.max().item<double>(), 1.0);  // not the empty statement
}

// Against a forward pass in 210 digits that shares no code with the modules.
TEST_P(EveryChoice, ComputesWhatItsFormulaSays) {
  const at::NoGradGuard no_gradients;
  const auto model = trained_like(GetParam().options);
  const at::Tensor x = some_inputs(model->shape(), 1, 4);
  Pass wide{.dtype = at::kDouble};
  const at::Tensor seen = model->forward_from(x.to(at::kDouble), wide).view({-1, model->shape().outputs});
  const test::ExactPass exact =
      test::exact_forward(*model, test::real_rows(x.view({-1, model->shape().size})));
  ASSERT_EQ(static_cast<int64_t>(exact.logits.size()), seen.size(0));
  for (size_t t = 0; t < exact.logits.size(); ++t)
    for (size_t i = 0; i < exact.logits[t].size(); ++i)
      EXPECT_NEAR(seen[static_cast<int64_t>(t)][static_cast<int64_t>(i)].item<double>(),
                  exact.logits[t][i].to_double(), 1e-11);
}

TEST_P(EveryChoice, IsCertifiedAndBothCheckersAgree) {
  const auto model = trained_like(GetParam().options);
  const CertifiedBound bound = certify(*model, 0.125);
  EXPECT_TRUE(check_bound(*model, bound).empty());
  const test::TemporaryFolder folder;
  const ModelIdentity written = write_model(*model, folder, certificate_metadata(bound));
  write_certificate(folder / "certificate.json", certificate_of(written, *model, bound));
  EXPECT_EQ(config_of(read_model(folder).model->options().value()), config_of(model->options().value()));
  EXPECT_TRUE(check_certificate(folder / "certificate.json", folder).loose.empty());
  const ProgramResult numpy = run_program({"/usr/bin/python3", "-c", "import numpy"}, folder);
  if (numpy.exit_code != 0) GTEST_SKIP() << "the other checker did not run: NumPy is missing";
  const ProgramResult other = run_program(
      {"/usr/bin/python3", BRIDLE_CHECK_CERTIFICATE, (folder / "certificate.json").string()}, folder);
  EXPECT_EQ(other.exit_code, 0) << other.output << other.errors;
}

// The trap: a fused pass that computes something else than what is certified.
TEST_P(EveryChoice, IsFusedAsItIsOrNotAtAll) {
  const auto model = trained_like(GetParam().options);
  const ModelShape shape = model->shape();
  const bool tokens = shape.input == InputKind::tokens;
  const at::Tensor in = tokens ? integers({4, 40}, shape.outputs, 7) : some_inputs(shape, 64, 1);
  const at::Tensor targets =
      integers(tokens ? at::IntArrayRef{4, 40} : at::IntArrayRef{64}, shape.outputs, 8);
  Pass plain;
  const at::Tensor logits = model->forward(in, plain).reshape({-1, shape.outputs});
  const at::Tensor loss = at::cross_entropy_loss(logits, targets.reshape({-1}));
  std::vector<at::Tensor> weights;
  for (const Param& param : model->params()) weights.push_back(param.tensor);
  const auto gradients = torch::autograd::grad({loss}, weights, {}, false, false, true);
  // In bfloat16 slopes jump, and maxima change places, where a sum is rounded the other way.
  const auto* transformer = std::get_if<TransformerOptions>(&GetParam().options);
  const bool jumps = transformer != nullptr && transformer->activation == ActivationKind::abs;
  for (const auto dtype : {at::kFloat, at::kBFloat16}) {
    const bool narrow = dtype == at::kBFloat16;
    Pass pass{.dtype = dtype, .training = true};
    const auto fused = model->fused_loss(in, targets, pass, true);
    ASSERT_EQ(fused.has_value(), model->why_not_fused(pass).empty()) << model->why_not_fused(pass);
    if (!fused) continue;
    EXPECT_NEAR(fused->loss, loss.item<double>(),
                (narrow ? (tokens ? 0.004 : 0.01) : 1e-5) * loss.item<double>());
    const double tolerance = narrow ? (jumps ? 0.3 : tokens ? 0.06 : 0.08) : 2e-3;
    for (size_t i = 0; i < weights.size(); ++i) {
      // What decays get depends on where maxima stand alone.
      const double loose = narrow && model->params()[i].role == Role::memory_decay ? 1.5 : 1.0;
      EXPECT_LT(fused->gradients[i].sub(gradients[i]).norm().item<double>(),
                loose * tolerance * gradients[i].norm().item<double>() + 1e-6)
          << model->params()[i].name << (narrow ? ", bfloat16" : ", float32");
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Of, EveryChoice, testing::ValuesIn(every_choice()), [](const auto& test_case) {
  std::string name = test_case.param.name;
  for (char& c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  return name;
});

}  // namespace
}  // namespace bridle
