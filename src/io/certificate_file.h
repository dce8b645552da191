// certificate.json as JSON: bridle/certificate_file.h has what users see of it.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "bridle/certificate_file.h"

namespace bridle {

constexpr int kCertificateSchema = 1;
constexpr const char* kCertificateNorm = "RMS to RMS, largest over tokens";
constexpr const char* kCertificateWeights = "model.safetensors";

nlohmann::ordered_json to_json(const Certificate& certificate);

// Whether a number about a weight is one per head, in a list.
bool states_list(const std::string& what);

}  // namespace bridle
