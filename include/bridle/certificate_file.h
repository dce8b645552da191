// certificate.json: a certified bound, and what it is about. docs/reference/certificate.md has the format and all that its
// check proves.
//
//   const CertifiedBound bound = certify(*model);
//   const ModelIdentity written = write_model(*model, folder, certificate_metadata(bound));
//   write_certificate(folder / "certificate.json", certificate_of(written, *model, bound));
//   check_certificate(folder / "certificate.json", folder);   // throws PromiseError unless it holds
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "bridle/certify.h"
#include "bridle/model_folder.h"

namespace bridle {

struct Certificate {
  std::string version;       // of Bridle
  std::string sha256;        // of model.safetensors
  std::string dtype;         // F32, BF16 or F16
  std::string architecture;  // config.json, as text
  CertifiedBound bound;
  std::optional<double> observed;  // the largest stretch that search_stretch found
};

// Throws PromiseError for weights that are not in float32, bfloat16 or float16.
Certificate certificate_of(const ModelIdentity& identity, const Model& model, const CertifiedBound& bound,
                           std::optional<double> observed = std::nullopt);

// The key facts, for the metadata of the weight file itself.
std::map<std::string, std::string> certificate_metadata(const CertifiedBound& bound);

std::string certificate_text(const Certificate& certificate);  // the file's JSON
void write_certificate(const std::filesystem::path& path, const Certificate& certificate);

// Throws InputError for a file that is not JSON and PromiseError for one that is no certificate. Nothing is proved.
Certificate read_certificate(const std::filesystem::path& path);

// A certificate that holds, and what in it is larger than it needs to be, in words.
struct CheckedCertificate {
  Certificate certificate;
  std::vector<std::string> loose;
};

// Everything that docs/reference/certificate.md lists, for the model in `folder`. The three files are opened once each, all of them before
// anything is judged. Throws InputError where one cannot be read, or is not JSON and should be; PromiseError, naming what
// does not hold, for everything else.
CheckedCertificate check_certificate(const std::filesystem::path& path, const std::filesystem::path& folder);

// A layer's part of log L, from the logarithms after and before it; not finite where there are no parts, because L is 1 or 0.
double layer_share(double log10, double before, double total);

}  // namespace bridle
