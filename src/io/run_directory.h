// A run's folder: all there is to know about it, readable without Bridle.
//   config.toml  config.json  model.safetensors  vocab.json (merges.txt)  metrics.jsonl  run.json  state/
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bridle/nn.h"
#include "bridle/tokenizer.h"

namespace bridle {

// config.json and model.safetensors. The weights are written as they are; metadata goes into the safetensors header.
void write_model(const Model& model, const std::filesystem::path& folder,
                 const std::map<std::string, std::string>& metadata = {});

// From a folder that Bridle, or anyone who keeps to the format, has written. Every weight must be there, nothing else, in the
// right shape, in one dtype. Throws InputError.
std::unique_ptr<Model> read_model(const std::filesystem::path& folder);

ModelOptions read_model_options(const std::filesystem::path& folder);

// The same with a configuration from elsewhere; and config.json's content as such. `path` is for messages.
std::unique_ptr<Model> read_model(const std::filesystem::path& folder, const ModelOptions& options);
nlohmann::ordered_json config_of(ModelOptions options);
ModelOptions options_from(const nlohmann::ordered_json& config, const std::filesystem::path& path);

// Copies tensors by name into the model's weights, strictly.
void load_weights_(const Model& model, const std::vector<std::pair<std::string, at::Tensor>>& tensors,
                   const std::string& origin);

}  // namespace bridle
