// A model's folder: config.json and model.safetensors, in the layout and with the names of Hugging Face's tools. The two files
// are enough to certify a model, whoever wrote them: docs/reference/certificate.md has their keys.
//
//   write_model(*model, "folder");
//   const StoredModel stored = read_model("folder");
#pragma once

#include <c10/core/Device.h>

#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include "bridle/nn.h"

namespace bridle {

// What a stored model is, for a certificate to speak of.
struct ModelIdentity {
  std::string sha256;  // of model.safetensors
  std::string config;  // the text of config.json
};

struct StoredModel {
  std::unique_ptr<Model> model;
  ModelIdentity identity;  // of just the bytes that the model was made from
};

// Writes both files into the folder, which must exist. The weights are written as they are; metadata goes into the
// safetensors header. Returns the identity of just the bytes that were written.
ModelIdentity write_model(const Model& model, const std::filesystem::path& folder,
                          const std::map<std::string, std::string>& metadata = {});

// Every weight must be there, nothing else, in the shape that config.json asks for, in one dtype; all that is compared before
// data are read or memory is taken. Throws InputError, naming what is missing or wrong.
StoredModel read_model(const std::filesystem::path& folder, at::Device device = at::kCPU);

}  // namespace bridle
