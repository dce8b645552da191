#include "io/model_folder.h"

#include <sys/stat.h>

#include <nlohmann/json.hpp>

#include "base/files.h"
#include "bridle/error.h"
#include "bridle/safetensors.h"
#include "file_support.h"
#include "nn_support.h"

namespace bridle {
namespace {

using test::TemporaryFolder;

TEST(ModelFiles, AreReadBackExactly) {
  const TemporaryFolder folder;
  for (const ModelOptions& options :
       {ModelOptions(test::small_transformer()),
        ModelOptions(MlpOptions{
            .layer_sizes = {12, 8, 5}, .activation = ActivationKind::maxmin, .final_scale = 0.1})}) {
    const auto model = make_model(options, 3);
    write_model(*model, folder, {{"note", "kept"}});
    const auto copy = read_model(folder).model;
    EXPECT_EQ(config_of(copy->options().value()), config_of(model->options().value()));
    ASSERT_EQ(copy->params().size(), model->params().size());
    for (size_t i = 0; i < copy->params().size(); ++i)
      EXPECT_TRUE(copy->params()[i].tensor.equal(model->params()[i].tensor));
    EXPECT_EQ(read_safetensors(folder / "model.safetensors").metadata.at("note"), "kept");
  }
}

TEST(ModelFiles, HaveTheContractsKeys) {
  const TemporaryFolder folder;
  write_model(*make_model(test::small_transformer(), 3), folder);
  const auto config = nlohmann::json::parse(read_file(folder / "config.json"));
  EXPECT_EQ(config["model_type"], "bridle");
  for (const char* key : {"hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size",
                          "vocab_size", "max_position_embeddings", "rope_theta", "hidden_act",
                          "activation_divisor", "softmax_scale", "attention_output_scale", "attention_alpha",
                          "mlp_alpha", "position_bias", "final_scale", "num_key_value_heads"})
    EXPECT_TRUE(config.contains(key)) << key;
}

TEST(ModelFiles, NeedOnlyTheContractsKeys) {
  const TemporaryFolder folder;
  write_model(*make_model(test::small_transformer(), 3), folder);
  nlohmann::json config = nlohmann::json::parse(read_file(folder / "config.json"));
  for (const char* key :
       {"positions", "residual", "norm", "norm_epsilon", "learnable_scales", "bias", "tie_embeddings",
        "dropout", "initialization", "position_bias_offsets", "position_bias_start", "position_bias_dilation",
        "logit_bias", "num_key_value_heads"})
    config.erase(key);
  write_file(folder / "config.json", config.dump());
  const auto model = read_model(folder).model;
  EXPECT_EQ(model->params().size(), 14U);
  EXPECT_EQ(test::transformer_options(*model).num_key_value_heads, 4);  // as before there was such a key
}

TEST(ModelFiles, AreReadStrictly) {
  const TemporaryFolder folder;
  const auto model = make_model(test::small_transformer(), 3);
  write_model(*model, folder);
  const std::string config = read_file(folder / "config.json");
  const auto with_config = [&](const std::function<void(nlohmann::json&)>& change, const char* part) {
    nlohmann::json changed = nlohmann::json::parse(config);
    change(changed);
    write_file(folder / "config.json", changed.dump());
    EXPECT_ERROR(read_model(folder), InputError, part);
    write_file(folder / "config.json", config);
  };
  with_config([](auto& c) { c["model_type"] = "llama"; }, "model_type is \"llama\"");
  with_config([](auto& c) { c["architectures"] = "Bridle"; },
              "architectures = \"Bridle\" is of the wrong type");
  with_config([](auto& c) { c["torch_dtype"] = 32; }, "torch_dtype = 32 is of the wrong type");
  with_config([](auto& c) { c["hiden_size"] = 3; }, "did you mean 'hidden_size'?");
  with_config([](auto& c) { c["hidden_size"] = "16"; }, "hidden_size = \"16\" is of the wrong type");
  with_config([](auto& c) { c["vocab_size"] = 12; },
              "model.embed_tokens.weight has shape [11, 16] and the model's configuration asks for [12, 16]");
  with_config([](auto& c) { c["num_hidden_layers"] = 3; },
              "model.layers.2.self_attn.q_proj.weight is missing");
  with_config([](auto& c) { c["num_hidden_layers"] = 1; }, "the model has no weight \"model.layers.1.");
  write_file(folder / "config.json", config.substr(0, 30));
  EXPECT_ERROR(read_model(folder), InputError, "truncated or damaged");
  write_file(folder / "config.json", config);
  SafetensorsFile file = read_safetensors(folder / "model.safetensors");
  file.tensors[2].second = file.tensors[2].second.to(at::kHalf);
  write_safetensors(folder / "model.safetensors", file);
  EXPECT_ERROR(read_model(folder), InputError, "is of another type");
}

// Nothing is allocated for what the file does not hold, so this ends at once: it would take terabytes.
TEST(ModelFiles, HaveTheirShapesComparedFirst) {
  const TemporaryFolder folder;
  write_model(*make_model(test::small_transformer(), 3), folder);
  const auto refused = [&](const char* config, const char* part) {
    write_file(folder / "config.json", config);
    EXPECT_ERROR(read_model(folder), InputError, part);
  };
  refused(R"({"model_type": "bridle", "hidden_size": 16, "vocab_size": 11, "max_position_embeddings": 8,
              "num_hidden_layers": 16777216})",
          "is missing");
  refused(R"({"model_type": "bridle_mlp", "layer_sizes": [16777216, 16777216]})", "is missing");
  refused(R"({"model_type": "bridle", "hidden_size": 4194304, "vocab_size": 16777216,
              "max_position_embeddings": 8})",
          "asks for [16777216, 4194304]");
  std::filesystem::resize_file(folder / "model.safetensors", uint64_t{1} << 40U);
  refused(R"({"model_type": "bridle_mlp", "layer_sizes": [2, 2]})", "bytes follow the last tensor");
}

TEST(ModelFiles, AreRegularFiles) {
  for (const char* name : {"config.json", "model.safetensors"}) {
    const TemporaryFolder folder;
    write_model(*make_model(test::small_transformer(), 3), folder);
    std::filesystem::remove(folder / name);
    ASSERT_EQ(::mkfifo((folder / name).c_str(), 0600), 0);
    EXPECT_ERROR(read_model(folder), InputError, "is not a regular file");
  }
}

}  // namespace
}  // namespace bridle
