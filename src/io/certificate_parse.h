// certificate.json's content, read strictly: docs/reference/certificate.md, "The language", has the rules.
#pragma once

#include <nlohmann/json.hpp>

#include "io/certificate_file.h"

namespace bridle {

// Everything that can be said of a certificate without its model. Throws PromiseError, naming what is not of a certificate.
Certificate parse_certificate(const nlohmann::ordered_json& json);

}  // namespace bridle
