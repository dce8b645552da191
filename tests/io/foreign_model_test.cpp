// Foreign files, written as other tools write them, against the formulas of those tools.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/outer.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/stack.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/subprocess.h"
#include "base/words.h"
#include "bridle/certificate_file.h"
#include "bridle/error.h"
#include "bridle/foreign.h"
#include "bridle/safetensors.h"
#include "file_support.h"
#include "support.h"

namespace bridle {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using State = std::map<std::string, at::Tensor>;

SafetensorsFile file_of(const State& state) {
  SafetensorsFile file;
  for (const auto& [name, tensor] : state) file.tensors.emplace_back(name, tensor);
  return file;
}

void write_folder(const fs::path& folder, const Json& config, const State& state) {
  make_folder(folder);
  write_file(folder / "config.json", config.dump());
  write_safetensors(folder / "model.safetensors", file_of(state));
}

at::Tensor causal(int64_t length) { return at::ones({length, length}, at::kDouble).triu(1).mul(-1e300); }

at::Tensor attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {  // [B, H, T, h]
  const double scale = 1.0 / std::sqrt(static_cast<double>(q.size(-1)));
  const at::Tensor logits = at::matmul(q, k.transpose(2, 3)).mul(scale).add(causal(q.size(2)));
  return at::matmul(at::softmax(logits, -1), v).transpose(1, 2).flatten(2);
}

// ---- GPT-2

Json gpt2_config() {
  return {{"model_type", "gpt2"},
          {"architectures", {"GPT2LMHeadModel"}},
          {"vocab_size", 23},
          {"n_embd", 16},
          {"n_layer", 2},
          {"n_head", 4},
          {"n_positions", 12},
          {"n_inner", nullptr},
          {"activation_function", "gelu_new"},
          {"layer_norm_epsilon", 1e-5},
          {"attn_pdrop", 0.1}};
}

State gpt2_state(const std::string& prefix) {
  State state;
  uint64_t seed = 1;
  const auto put = [&](const std::string& name, at::IntArrayRef shape, double size, double base = 0.0) {
    state[prefix + name] = test::normal(shape, seed++, at::kFloat).mul(size).add(base);
  };
  put("wte.weight", {23, 16}, 0.5);
  put("wpe.weight", {12, 16}, 0.3);
  for (int i = 0; i < 2; ++i) {
    const std::string h = fmt::format("h.{}.", i);
    for (const char* ln : {"ln_1", "ln_2"}) {
      put(h + ln + ".weight", {16}, 0.2, 1.0);
      put(h + ln + ".bias", {16}, 0.2);
    }
    put(h + "attn.c_attn.weight", {16, 48}, 0.3);
    put(h + "attn.c_attn.bias", {48}, 0.2);
    put(h + "attn.c_proj.weight", {16, 16}, 0.3);
    put(h + "attn.c_proj.bias", {16}, 0.2);
    put(h + "mlp.c_fc.weight", {16, 64}, 0.3);
    put(h + "mlp.c_fc.bias", {64}, 0.2);
    put(h + "mlp.c_proj.weight", {64, 16}, 0.2);
    put(h + "mlp.c_proj.bias", {16}, 0.2);
    state[prefix + h + "attn.bias"] = at::ones({1, 1, 12, 12}, at::kByte).tril();
  }
  put("ln_f.weight", {16}, 0.2, 1.0);
  put("ln_f.bias", {16}, 0.2);
  return state;
}

// As GPT2LMHeadModel computes it: Conv1D is x·W + b.
at::Tensor gpt2_logits(const State& state, const std::string& prefix, const at::Tensor& tokens) {
  const auto w = [&](const std::string& name) { return state.at(prefix + name).to(at::kDouble); };
  const auto conv = [&](const at::Tensor& x, const std::string& name) {
    return x.matmul(w(name + ".weight")).add(w(name + ".bias"));
  };
  const auto norm = [&](const at::Tensor& x, const std::string& name) {
    return at::layer_norm(x, {16}, w(name + ".weight"), w(name + ".bias"), 1e-5);
  };
  at::Tensor x = at::embedding(w("wte.weight"), tokens).add(w("wpe.weight").narrow(0, 0, tokens.size(1)));
  for (int i = 0; i < 2; ++i) {
    const std::string h = fmt::format("h.{}.", i);
    const auto parts = conv(norm(x, h + "ln_1"), h + "attn.c_attn").split(16, -1);
    const auto heads = [&](const at::Tensor& t) {
      return t.view({t.size(0), t.size(1), 4, 4}).transpose(1, 2);
    };
    x = x.add(conv(attend(heads(parts[0]), heads(parts[1]), heads(parts[2])), h + "attn.c_proj"));
    x = x.add(conv(at::gelu(conv(norm(x, h + "ln_2"), h + "mlp.c_fc"), "tanh"), h + "mlp.c_proj"));
  }
  const std::string head = state.contains("lm_head.weight") ? "lm_head.weight" : prefix + "wte.weight";
  return norm(x, "ln_f").matmul(state.at(head).to(at::kDouble).t());
}

at::Tensor some_tokens(int64_t length) {
  return test::normal({3, length}, 9).mul(1e4).to(at::kLong).remainder(23);
}

void expect_logits(const Model& model, const at::Tensor& tokens, const at::Tensor& expected) {
  const at::NoGradGuard no_gradients;
  Pass pass{.dtype = at::kDouble};
  EXPECT_LT(model.forward(tokens, pass).sub(expected).abs().max().item<double>(), 1e-6);
}

TEST(AForeignGpt2, ComputesWhatItsFormulaSaysAndIsCertified) {
  const test::TemporaryFolder folder;
  for (const std::string prefix : {"", "transformer."}) {
    State state = gpt2_state(prefix);
    const fs::path place = folder / ("gpt2" + prefix);
    write_folder(place, gpt2_config(), state);
    const ForeignModel read = read_foreign(place);
    EXPECT_EQ(read.kind, "gpt2");
    EXPECT_EQ(read.ignored.size(), 2U);  // the masks
    expect_logits(*read.model, some_tokens(10), gpt2_logits(state, prefix, some_tokens(10)));
    state["lm_head.weight"] = test::normal({23, 16}, 77, at::kFloat);
    write_folder(place, gpt2_config(), state);
    expect_logits(*read_foreign(place).model, some_tokens(10), gpt2_logits(state, prefix, some_tokens(10)));
  }
  const ImportResult result = import_model(folder / "gpt2", folder / "out");
  ASSERT_TRUE(result.bound);
  EXPECT_TRUE(check_certificate(folder / "out" / "certificate.json", folder / "out").loose.empty());
  EXPECT_ERROR(import_model(folder / "gpt2", folder / "out"), InputError, "is there already");
  const ProgramResult other = run_program(
      {"/usr/bin/python3", BRIDLE_CHECK_CERTIFICATE, (folder / "out" / "certificate.json").string()}, folder);
  EXPECT_EQ(other.exit_code, 0) << other.output << other.errors;
}

// ---- Llama

Json llama_config() {
  return {{"model_type", "llama"},
          {"vocab_size", 23},
          {"hidden_size", 16},
          {"intermediate_size", 24},
          {"num_hidden_layers", 2},
          {"num_attention_heads", 4},
          {"num_key_value_heads", 2},
          {"rms_norm_eps", 1e-5},
          {"rope_theta", 500.0},
          {"hidden_act", "silu"},
          {"tie_word_embeddings", false},
          {"max_position_embeddings", 32},
          {"attention_bias", false},
          {"rope_scaling", nullptr}};
}

State llama_state(bool bias) {
  State state;
  uint64_t seed = 1;
  const auto put = [&](const std::string& name, at::IntArrayRef shape, double size, double base = 0.0) {
    state[name] = test::normal(shape, seed++, at::kFloat).mul(size).add(base);
  };
  put("model.embed_tokens.weight", {23, 16}, 0.5);
  put("lm_head.weight", {23, 16}, 0.5);
  put("model.norm.weight", {16}, 0.2, 1.0);
  for (int i = 0; i < 2; ++i) {
    const std::string l = fmt::format("model.layers.{}.", i);
    put(l + "input_layernorm.weight", {16}, 0.2, 1.0);
    put(l + "post_attention_layernorm.weight", {16}, 0.2, 1.0);
    for (const auto& [part, rows] :
         {std::pair{"q", 16}, std::pair{"k", 8}, std::pair{"v", 8}, std::pair{"o", 16}}) {
      put(fmt::format("{}self_attn.{}_proj.weight", l, part), {rows, 16}, 0.4);
      if (bias && std::string(part) != "o")
        put(fmt::format("{}self_attn.{}_proj.bias", l, part), {rows}, 0.3);
    }
    put(l + "mlp.gate_proj.weight", {24, 16}, 0.4);
    put(l + "mlp.up_proj.weight", {24, 16}, 0.4);
    put(l + "mlp.down_proj.weight", {16, 24}, 0.3);
  }
  state["model.layers.0.self_attn.rotary_emb.inv_freq"] = at::ones({2}, at::kFloat);
  return state;
}

// As LlamaForCausalLM computes it, rotate_half and repeat_kv included; pairs of neighbours where `interleaved`.
at::Tensor llama_logits(const State& state, const at::Tensor& tokens, bool interleaved) {
  const auto w = [&](const std::string& name) { return state.at(name).to(at::kDouble); };
  const auto norm = [&](const at::Tensor& x, const std::string& name) {
    return w(name + ".weight").mul(x.mul(x.square().mean(-1, true).add(1e-5).rsqrt()));
  };
  const auto linear = [&](const at::Tensor& x, const std::string& name) {
    const at::Tensor y = x.matmul(w(name + ".weight").t());
    return state.contains(name + ".bias") ? y.add(w(name + ".bias")) : y;
  };
  const int64_t length = tokens.size(1);
  const at::Tensor frequencies = at::arange(0, 4, 2, at::kDouble).div(4.0).mul(-std::log(500.0)).exp();
  const at::Tensor angles = at::outer(at::arange(length, at::kDouble), frequencies);  // [T, 2]
  const auto rope = [&](const at::Tensor& x) {
    if (interleaved) {
      const at::Tensor a = x.slice(-1, 0, 4, 2), b = x.slice(-1, 1, 4, 2);
      return at::stack(
                 {a.mul(angles.cos()).sub(b.mul(angles.sin())), a.mul(angles.sin()).add(b.mul(angles.cos()))},
                 -1)
          .flatten(-2);
    }
    const at::Tensor wide = at::cat({angles, angles}, -1);
    const at::Tensor turned = at::cat({x.slice(-1, 2, 4).neg(), x.slice(-1, 0, 2)}, -1);
    return x.mul(wide.cos()).add(turned.mul(wide.sin()));
  };
  at::Tensor x = at::embedding(w("model.embed_tokens.weight"), tokens);
  for (int i = 0; i < 2; ++i) {
    const std::string l = fmt::format("model.layers.{}.", i);
    const at::Tensor y = norm(x, l + "input_layernorm");
    const auto heads = [&](const char* part, int64_t count) {
      return linear(y, l + "self_attn." + part + "_proj").view({y.size(0), length, count, 4}).transpose(1, 2);
    };
    const at::Tensor k = rope(heads("k", 2)).repeat_interleave(2, 1),
                     v = heads("v", 2).repeat_interleave(2, 1);
    x = x.add(linear(attend(rope(heads("q", 4)), k, v), l + "self_attn.o_proj"));
    const at::Tensor z = norm(x, l + "post_attention_layernorm");
    x = x.add(linear(at::silu(linear(z, l + "mlp.gate_proj")).mul(linear(z, l + "mlp.up_proj")),
                     l + "mlp.down_proj"));
  }
  return linear(norm(x, "model.norm"), "lm_head");
}

TEST(AForeignLlama, ComputesWhatItsFormulaSaysInBothLayoutsOfRope) {
  const test::TemporaryFolder folder;
  for (const bool bias : {false, true}) {
    for (const bool interleaved : {false, true}) {
      const State state = llama_state(bias);
      write_folder(folder / "llama", llama_config(), state);
      const ForeignModel read =
          read_foreign(folder / "llama", {.rope = interleaved ? RopeLayout::interleaved : RopeLayout::half});
      EXPECT_EQ(read.kind, "llama");
      EXPECT_EQ(read.filled.size(), bias ? 8U : 0U);  // o_proj and the feed-forward layer's
      EXPECT_EQ(read.ignored, std::vector<std::string>{"model.layers.0.self_attn.rotary_emb.inv_freq"});
      expect_logits(*read.model, some_tokens(11), llama_logits(state, some_tokens(11), interleaved));
    }
  }
  const ImportResult result = import_model(folder / "llama", folder / "out");
  ASSERT_TRUE(result.bound);
  EXPECT_TRUE(check_certificate(folder / "out" / "certificate.json", folder / "out").loose.empty());
  const ProgramResult other = run_program(
      {"/usr/bin/python3", BRIDLE_CHECK_CERTIFICATE, (folder / "out" / "certificate.json").string()}, folder);
  EXPECT_EQ(other.exit_code, 0) << other.output << other.errors;
}

// Whoever searches finds inputs whose difference grows by less than the bound says.
TEST(AForeignModel, HasABoundThatASearchNeverExceeds) {
  const test::TemporaryFolder folder;
  Json gpt2 = gpt2_config(), llama = llama_config();
  gpt2["layer_norm_epsilon"] = llama["rms_norm_eps"] = 0.1;  // so that bounds are near what happens
  write_folder(folder / "gpt2", gpt2, gpt2_state(""));
  write_folder(folder / "llama", llama, llama_state(true));
  for (const char* name : {"gpt2", "llama"}) {
    const ForeignModel read = read_foreign(folder / name);
    const CertifiedBound bound = certify(*read.model);
    const ObservedStretch found =
        search_stretch(*read.model, {.domain = bound.domain_radius, .starts = 6, .rounds = 40});
    EXPECT_GT(found.lipschitz, 0.1) << name;
    EXPECT_LE(found.lipschitz, bound.lipschitz.value) << name;
    EXPECT_LE(found.largest_logit, bound.largest_logit.value) << name;
  }
}

TEST(AForeignModel, HasNoBoundWithoutEpsilonAndSaysFromWhereOn) {
  const test::TemporaryFolder folder;
  Json config = llama_config();
  config["rms_norm_eps"] = 0.0;
  write_folder(folder / "llama", config, llama_state(false));
  const ImportResult result = import_model(folder / "llama", folder / "out");
  EXPECT_FALSE(result.bound);
  EXPECT_NE(result.no_bound.find("no finite bound, from model.layers.0.self_attn on"), std::string::npos)
      << result.no_bound;
  EXPECT_FALSE(fs::exists(folder / "out" / "certificate.json"));
}

// ---- Linear layers in a row

TEST(ForeignLinearLayers, AreTakenInTheOrderOfTheirNumbers) {
  const test::TemporaryFolder folder;
  State state;
  std::vector<int64_t> sizes{5, 7, 6, 8, 3};
  for (size_t i = 0; i + 1 < sizes.size(); ++i) {  // nn.Sequential numbers activations too: 0, 4, 8, 12
    state[fmt::format("net.{}.weight", 4 * i)] = test::normal({sizes[i + 1], sizes[i]}, i, at::kFloat);
    if (i != 1) state[fmt::format("net.{}.bias", 4 * i)] = test::normal({sizes[i + 1]}, 50 + i, at::kFloat);
  }
  write_safetensors(folder / "net.safetensors", file_of(state));
  EXPECT_ERROR(read_foreign(folder / "net.safetensors"), InputError, "--activation");
  const ForeignModel read =
      read_foreign(folder / "net.safetensors", {.activation = ActivationKind::relu, .input_bound = 2.0});
  EXPECT_EQ(read.kind, "mlp");
  EXPECT_EQ(read.filled, std::vector<std::string>{"model.layers.1.bias"});
  at::Tensor x = test::normal({4, 5}, 3);
  const at::Tensor inputs = x;
  for (size_t i = 0; i + 1 < sizes.size(); ++i) {
    x = x.matmul(state.at(fmt::format("net.{}.weight", 4 * i)).to(at::kDouble).t());
    if (i != 1) x = x.add(state.at(fmt::format("net.{}.bias", 4 * i)).to(at::kDouble));
    if (i + 2 < sizes.size()) x = at::relu(x);
  }
  expect_logits(*read.model, inputs, x);
  EXPECT_EQ(certify(*read.model).domain_radius, 2.0);
}

TEST(AForeignModel, IsRefusedByTheNameOfWhatBridleHasNot) {
  const test::TemporaryFolder folder;
  const auto refused = [&](const Json& config, const State& state, const char* part) {
    write_folder(folder / "model", config, state);
    EXPECT_ERROR(read_foreign(folder / "model"), InputError, part);
  };
  const auto changed = [](Json config, const char* key, const Json& value) {
    config[key] = value;
    return config;
  };
  refused(changed(llama_config(), "rope_scaling", {{"type", "linear"}, {"factor", 2.0}}), llama_state(false),
          "rope_scaling.type must be \"default\"");
  refused(changed(llama_config(), "head_dim", 8), llama_state(false), "head_dim must be");
  refused(changed(llama_config(), "hidden_act", "mish"), llama_state(false), "must be one of gelu");
  refused(changed(llama_config(), "model_type", "mixtral"), llama_state(false),
          "model_type must be one of gpt2, llama");
  refused(changed(llama_config(), "hidden_size", "16"), llama_state(false), "hidden_size must be an integer");
  refused(changed(llama_config(), "num_hidden_layers", 3), llama_state(false), "\"model.layers.2");
  refused(changed(gpt2_config(), "scale_attn_by_inverse_layer_idx", true), gpt2_state(""),
          "must be false, got true");
  refused(changed(gpt2_config(), "n_positions", 13), gpt2_state(""), "\"wpe.weight\" has shape [12, 16]");
  State extra = llama_state(false);
  extra["model.layers.0.self_attn.q_norm.weight"] = at::ones({4}, at::kFloat);
  refused(llama_config(), extra, "\"model.layers.0.self_attn.q_norm.weight\" [4] is no part");
  State wide = llama_state(false);
  wide["lm_head.weight"] = wide["lm_head.weight"].to(at::kDouble);
  refused(llama_config(), wide, "\"lm_head.weight\" is float64");
  State norms;
  norms["0.weight"] = at::ones({3, 4}, at::kFloat);
  norms["1.running_mean"] = at::ones({3}, at::kFloat);
  write_safetensors(folder / "file.safetensors", file_of(norms));
  EXPECT_ERROR(read_foreign(folder / "file.safetensors", {.activation = ActivationKind::relu}), InputError,
               "\"1.running_mean\" [3] is no weight");
  State broken;
  broken["0.weight"] = at::ones({3, 4}, at::kFloat);
  broken["1.weight"] = at::ones({3, 4}, at::kFloat);
  write_safetensors(folder / "file.safetensors", file_of(broken));
  EXPECT_ERROR(read_foreign(folder / "file.safetensors", {.activation = ActivationKind::relu}), InputError,
               "takes 4 inputs, and the layer before it gives 3");
  write_safetensors(folder / "file.safetensors", file_of(gpt2_state("")));
  EXPECT_ERROR(read_foreign(folder / "file.safetensors"), InputError, "put that beside it");
  EXPECT_ERROR(read_foreign(folder / "none"), InputError, "is not there");
  make_folder(folder / "empty");
  EXPECT_ERROR(read_foreign(folder / "empty"), InputError, "pickles are not read");
}

TEST(AForeignModel, ComesInShardsTooAndItsWeightsMayBeNarrow) {
  const test::TemporaryFolder folder;
  State state = llama_state(false), first, second;
  Json map = Json::object();
  for (auto& [name, tensor] : state) {
    tensor = tensor.to(at::kBFloat16);
    const bool even = map.size() % 2 == 0;
    (even ? first : second)[name] = tensor;
    map[name] = even ? "a.safetensors" : "b.safetensors";
  }
  make_folder(folder / "model");
  write_file(folder / "model" / "config.json", llama_config().dump());
  write_safetensors(folder / "model" / "a.safetensors", file_of(first));
  write_safetensors(folder / "model" / "b.safetensors", file_of(second));
  write_file(folder / "model" / "model.safetensors.index.json", Json{{"weight_map", map}}.dump());
  const ForeignModel read = read_foreign(folder / "model");
  EXPECT_EQ(read.model->params().front().tensor.scalar_type(), at::kBFloat16);
  expect_logits(*read.model, some_tokens(9), llama_logits(state, some_tokens(9), false));
  map["x"] = "../a.safetensors";
  write_file(folder / "model" / "model.safetensors.index.json", Json{{"weight_map", map}}.dump());
  EXPECT_ERROR(read_foreign(folder / "model"), InputError, "must name a file of the folder");
}

TEST(RopeLayouts, HaveWords) {
  EXPECT_EQ(value_of<RopeLayout>("half"), RopeLayout::half);
  EXPECT_EQ(value_of<RopeLayout>("interleaved"), RopeLayout::interleaved);
}

}  // namespace
}  // namespace bridle
