#include "io/certificate_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/files.h"
#include "base/json_text.h"
#include "bridle/error.h"
#include "io/certificate_parse.h"
#include "io/model_folder.h"

namespace bridle {
namespace {

using Json = nlohmann::ordered_json;
using Path = std::filesystem::path;

Json finite_or_null(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

[[noreturn]] void refuse(const std::string& what) { throw PromiseError("check", what); }

std::string dtype_name(const Model& model) {
  const at::ScalarType type = model.params().front().tensor.scalar_type();
  if (type == at::kFloat) return "F32";
  if (type == at::kBFloat16) return "BF16";
  if (type == at::kHalf) return "F16";
  throw PromiseError("certify", "bounds are for weights in float32, bfloat16 or float16");
}

Json layers_json(const CertifiedBound& bound) {
  Json layers = Json::array();
  double before = 0.0;
  for (const StatedLayer& layer : bound.layers) {
    layers.push_back(
        {{"name", layer.name},
         {"activation", finite_or_null(layer.activation.value)},
         {"lipschitz", finite_or_null(layer.lipschitz.value)},
         {"log10_activation", finite_or_null(layer.activation.log10)},
         {"log10_lipschitz", finite_or_null(layer.lipschitz.log10)},
         {"share", finite_or_null(layer_share(layer.lipschitz.log10, before, bound.lipschitz.log10))}});
    before = layer.lipschitz.log10;
  }
  return layers;
}

Json matrices_json(const CertifiedBound& bound) {
  Json matrices = Json::array();
  for (const WeightFacts& facts : bound.weights) {
    Json entry{{"name", facts.name}, {"shape", facts.shape}, {"method", facts.method}};
    for (const auto& [what, values] : facts.numbers)
      entry[what] = states_list(what) ? Json(values) : Json(values.at(0));
    const bool scaled =
        std::any_of(facts.scales.begin(), facts.scales.end(), [](double s) { return s != 1.0; });
    if (scaled) entry["scales"] = facts.scales;
    matrices.push_back(std::move(entry));
  }
  return matrices;
}

Json read_json(const Path& path) { return parse_json(read_file(path, kLargestJson), "check", path.string()); }

void refuse_another_model(const Certificate& certificate, const ModelIdentity& identity, const Path& folder) {
  if (!same_json(parse_json(identity.config, "check", (folder / "config.json").string()),
                 parse_json(certificate.architecture, "check", "architecture")))
    refuse(
        fmt::format("{} is another architecture than the certificate's", (folder / "config.json").string()));
  if (identity.sha256 != certificate.sha256)
    refuse(fmt::format("{} has SHA-256 {}; the certificate is about {}",
                       (folder / kCertificateWeights).string(), identity.sha256, certificate.sha256));
}

CheckedCertificate check_content(const Json& json, ModelFiles& files, const Path& folder) {
  CheckedCertificate result{.certificate = parse_certificate(json), .loose = {}};
  const Certificate& certificate = result.certificate;
  const StoredModel stored = files.read();
  refuse_another_model(certificate, stored.identity, folder);
  if (dtype_name(*stored.model) != certificate.dtype)
    refuse(fmt::format("the weights are {}; {} is stated", dtype_name(*stored.model), certificate.dtype));
  result.loose = check_bound(*stored.model, certificate.bound);
  return result;
}

}  // namespace

double layer_share(double log10, double before, double total) {
  if (total == 0.0) return std::nan("");
  return (log10 - before) / total + 0.0;  // no minus zero
}

bool states_list(const std::string& what) { return what == "heads" || what == "euclidean_heads"; }

Certificate certificate_of(const ModelIdentity& identity, const Model& model, const CertifiedBound& bound,
                           std::optional<double> observed) {
  return {.version = BRIDLE_VERSION,
          .sha256 = identity.sha256,
          .dtype = dtype_name(model),
          .architecture = identity.config,
          .bound = bound,
          .observed = observed};
}

Json to_json(const Certificate& certificate) {
  const CertifiedBound& bound = certificate.bound;
  return {{"schema", kCertificateSchema},
          {"version", certificate.version},
          {"formula", "sound"},
          {"certified", true},
          {"norm", kCertificateNorm},
          {"lipschitz", finite_or_null(bound.lipschitz.value)},
          {"log10_lipschitz", finite_or_null(bound.lipschitz.log10)},
          {"largest_logit_lipschitz", finite_or_null(bound.largest_logit.value)},
          {"log10_largest_logit_lipschitz", finite_or_null(bound.largest_logit.log10)},
          {"token_radius", bound.token_radius},
          {"attack_radius", bound.attack_radius},
          {"domain_radius", bound.domain_radius},
          {"observed_lipschitz", certificate.observed ? Json(*certificate.observed) : Json(nullptr)},
          {"weights",
           {{"file", kCertificateWeights}, {"sha256", certificate.sha256}, {"dtype", certificate.dtype}}},
          {"architecture", parse_json(certificate.architecture, "certify", "architecture")},
          {"layers", layers_json(bound)},
          {"matrices", matrices_json(bound)}};
}

std::string certificate_text(const Certificate& certificate) { return to_json(certificate).dump(2) + "\n"; }

void write_certificate(const Path& path, const Certificate& certificate) {
  const std::string text = certificate_text(certificate);
  if (text.size() > kLargestJson)
    throw PromiseError("certify", fmt::format("{} would have {} bytes; a certificate has at most {}",
                                              path.string(), text.size(), kLargestJson));
  write_file(path, text);
}

Certificate read_certificate(const Path& path) { return parse_certificate(read_json(path)); }

CheckedCertificate check_certificate(const Path& path, const Path& folder) {
  const Json json = read_json(path);
  ModelFiles files(folder);
  try {
    return check_content(json, files, folder);
  } catch (const PromiseError&) {
    throw;
  } catch (const Error& error) {  // the certificate is about something else, or about nothing
    refuse(error.what());
  } catch (const c10::Error&) {
    refuse("its numbers cannot be computed from these weights");
  }
}

std::map<std::string, std::string> certificate_metadata(const CertifiedBound& bound) {
  return {{"bridle_version", BRIDLE_VERSION},
          {"lipschitz", std::isfinite(bound.lipschitz.value) ? fmt::format("{}", bound.lipschitz.value)
                                                             : "see log10_lipschitz"},
          {"log10_lipschitz", fmt::format("{}", bound.lipschitz.log10)},
          {"lipschitz_norm", kCertificateNorm},
          {"domain_radius", fmt::format("{}", bound.domain_radius)}};
}

}  // namespace bridle
