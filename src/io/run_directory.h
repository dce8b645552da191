// A run's folder: all there is to know about it, readable without Bridle.
//   config.toml  config.json  model.safetensors  vocab.json (merges.txt)  metrics.jsonl  run.json  state/
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/files.h"
#include "bridle/nn.h"
#include "bridle/tokenizer.h"

namespace bridle {

// What a stored model is, for a certificate to speak of.
struct ModelIdentity {
  std::string sha256;             // of model.safetensors
  nlohmann::ordered_json config;  // config.json
};

// config.json and model.safetensors, of a model whose options() describe it. The weights are written as they are; metadata goes into the safetensors header. Returns
// the identity of just the bytes that were written.
ModelIdentity write_model(const Model& model, const std::filesystem::path& folder,
                          const std::map<std::string, std::string>& metadata = {});

// model.safetensors alone, of a model that no options describe. Returns its SHA-256.
std::string write_weights(const Model& model, const std::filesystem::path& folder,
                          const std::map<std::string, std::string>& metadata = {});

struct StoredModel {
  std::unique_ptr<Model> model;
  ModelIdentity identity;  // of just the bytes that the model was made from
};

// The two files of a model, each opened once.
class ModelFiles {
 public:
  // Throws InputError where a file is not there or is no regular file, and where config.json is not JSON.
  explicit ModelFiles(const std::filesystem::path& folder);

  // Once. Every weight must be there, nothing else, in the shape that the configuration asks for, in one dtype; all that is
  // compared before data are read or memory is taken. Throws InputError.
  StoredModel read();

 private:
  std::filesystem::path config_path_;
  nlohmann::ordered_json config_;
  InputFile weights_;
};

// From a folder that Bridle, or anyone who keeps to the format, has written. Throws InputError.
std::unique_ptr<Model> read_model(const std::filesystem::path& folder);

// config.json's content. `path` is for messages.
nlohmann::ordered_json config_of(ModelOptions options);
ModelOptions options_from(const nlohmann::ordered_json& config, const std::filesystem::path& path);

// Copies tensors by name into the model's weights, strictly.
void load_weights_(const Model& model, const std::vector<std::pair<std::string, at::Tensor>>& tensors,
                   const std::string& origin);

}  // namespace bridle
