// certificate.json: docs/certificate.md has the format.
#pragma once

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "bridle/certify.h"

namespace bridle {

// The files that a certificate is about.
struct ModelIdentity {
  std::string sha256;             // of model.safetensors
  nlohmann::ordered_json config;  // config.json
};
ModelIdentity identity_of(const std::filesystem::path& folder);

// The model and the identity of just these bytes. Throws InputError where a file is not there, is damaged, or changes while
// it is read.
std::unique_ptr<Model> read_identified_model(const std::filesystem::path& folder, ModelIdentity& identity);

struct Certificate {
  std::string version;
  std::string sha256;                   // of model.safetensors
  std::string dtype;                    // F32, BF16 or F16
  nlohmann::ordered_json architecture;  // config.json
  CertifiedBound bound;
  std::optional<double> observed;
};

Certificate certificate_of(const ModelIdentity& identity, const Model& model, const CertifiedBound& bound,
                           std::optional<double> observed = std::nullopt);

nlohmann::ordered_json to_json(const Certificate& certificate);
void write_certificate(const std::filesystem::path& path, const Certificate& certificate);

// Throws InputError for a file that is not JSON and PromiseError for one that is no certificate.
Certificate read_certificate(const std::filesystem::path& path);

// Everything that docs/certificate.md lists, for the model in `folder`. Throws PromiseError, naming what does not hold, and
// InputError for files that are not there; returns what is larger than it needs to be.
std::vector<std::string> check_certificate(const Certificate& certificate,
                                           const std::filesystem::path& folder);

// The key facts, for the metadata of the weight file itself.
std::map<std::string, std::string> certificate_metadata(const CertifiedBound& bound);

}  // namespace bridle
