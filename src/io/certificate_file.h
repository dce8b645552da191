// certificate.json: docs/certificate.md has the format.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "bridle/certify.h"
#include "io/run_directory.h"

namespace bridle {

constexpr int kCertificateSchema = 1;
constexpr const char* kCertificateNorm = "RMS to RMS, largest over tokens";
constexpr const char* kCertificateWeights = "model.safetensors";

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

// A layer's part of log L; not finite where there are no parts, because L is 1 or 0.
double layer_share(double log10, double before, double total);

// Whether a number about a weight is one a head, in a list.
bool states_list(const std::string& what);

// Throws InputError for a file that is not JSON and PromiseError for one that is no certificate.
Certificate read_certificate(const std::filesystem::path& path);

// A certificate that holds, and what in it is larger than it needs to be, in words.
struct CheckedCertificate {
  Certificate certificate;
  std::vector<std::string> loose;
};

// Everything that docs/certificate.md lists, for the model in `folder`. The three files are opened once each, all of them before
// anything is judged. Throws InputError where one cannot be read, or is not JSON and should be; PromiseError, naming what
// does not hold, for everything else.
CheckedCertificate check_certificate(const std::filesystem::path& path, const std::filesystem::path& folder);

// The key facts, for the metadata of the weight file itself.
std::map<std::string, std::string> certificate_metadata(const CertifiedBound& bound);

}  // namespace bridle
