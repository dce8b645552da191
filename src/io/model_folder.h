// The parts of bridle/model_folder.h: the two files, each opened once, and config.json as JSON.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/files.h"
#include "bridle/model_folder.h"

namespace bridle {

// The two files of a model, each opened once.
class ModelFiles {
 public:
  // Throws InputError where a file is not there or is no regular file, and where config.json is not JSON.
  explicit ModelFiles(const std::filesystem::path& folder);

  // Once; on the CPU. Throws InputError like read_model.
  StoredModel read();

 private:
  std::filesystem::path config_path_;
  std::string config_text_;
  nlohmann::ordered_json config_;
  InputFile weights_;
};

// model.safetensors alone, of a model that no options describe. Returns its SHA-256.
std::string write_weights(const Model& model, const std::filesystem::path& folder,
                          const std::map<std::string, std::string>& metadata = {});

// config.json's content. `path` is for messages.
nlohmann::ordered_json config_of(ModelOptions options);
ModelOptions options_from(const nlohmann::ordered_json& config, const std::filesystem::path& path);

// Copies tensors by name into the model's weights, strictly.
void load_weights_(const Model& model, const std::vector<std::pair<std::string, at::Tensor>>& tensors,
                   const std::string& origin);

}  // namespace bridle
