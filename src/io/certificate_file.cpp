#include "io/certificate_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/checksum.h"
#include "base/files.h"
#include "base/json_text.h"
#include "bridle/error.h"
#include "io/run_directory.h"

namespace bridle {
namespace {

using Json = nlohmann::ordered_json;
using Path = std::filesystem::path;

constexpr int kSchema = 1;
constexpr const char* kNorm = "RMS to RMS, largest over tokens";
constexpr const char* kWeights = "model.safetensors";

Json finite_or_null(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

[[noreturn]] void refuse(const std::string& what) { throw PromiseError("check", what); }

std::string dtype_name(const Model& model) {
  switch (model.params().front().tensor.scalar_type()) {
    case at::kFloat:
      return "F32";
    case at::kBFloat16:
      return "BF16";
    case at::kHalf:
      return "F16";
    default:
      throw PromiseError("certify", "bounds are for weights in float32, bfloat16 or float16");
  }
}

// A layer's part of log L; null where L is 1 or 0, so that there are no parts.
Json share_of(double log10, double before, double total) {
  if (total == 0.0) return nullptr;
  return finite_or_null((log10 - before) / total);
}

Json layers_json(const CertifiedBound& bound) {
  Json layers = Json::array();
  double before = 0.0;
  for (const StatedLayer& layer : bound.layers) {
    layers.push_back({{"name", layer.name},
                      {"activation", finite_or_null(layer.activation.value)},
                      {"lipschitz", finite_or_null(layer.lipschitz.value)},
                      {"log10_activation", finite_or_null(layer.activation.log10)},
                      {"log10_lipschitz", finite_or_null(layer.lipschitz.log10)},
                      {"share", share_of(layer.lipschitz.log10, before, bound.lipschitz.log10)}});
    before = layer.lipschitz.log10;
  }
  return layers;
}

const std::set<std::string> kLists{"heads", "euclidean_heads"};

Json matrices_json(const CertifiedBound& bound) {
  Json matrices = Json::array();
  for (const WeightFacts& facts : bound.weights) {
    Json entry{{"name", facts.name}, {"shape", facts.shape}, {"method", facts.method}};
    for (const auto& [what, values] : facts.numbers)
      entry[what] = kLists.contains(what) ? Json(values) : Json(values.at(0));
    const bool scaled =
        std::any_of(facts.scales.begin(), facts.scales.end(), [](double s) { return s != 1.0; });
    if (scaled) entry["scales"] = facts.scales;
    matrices.push_back(std::move(entry));
  }
  return matrices;
}

// ---- Reading, strictly

const Json& field(const Json& object, const std::string& key) {
  if (!object.is_object() || !object.contains(key)) refuse(fmt::format("'{}' is missing", key));
  return object.at(key);
}

double number(const Json& object, const std::string& key) {
  const Json& value = field(object, key);
  if (!value.is_number()) refuse(fmt::format("'{}' is {}, not a number", key, value.dump()));
  return value.get<double>();
}

std::string text(const Json& object, const std::string& key) {
  const Json& value = field(object, key);
  if (!value.is_string()) refuse(fmt::format("'{}' is {}, not a text", key, value.dump()));
  return value.get<std::string>();
}

// A bound beyond a double is null, and so is the logarithm of zero; both at once say nothing.
StatedBound stated(const Json& object, const std::string& key) {
  const bool huge = field(object, key).is_null();
  const bool zero = field(object, "log10_" + key).is_null();
  if (huge && zero) refuse(fmt::format("'{}' and its logarithm are both null", key));
  return {huge ? HUGE_VAL : number(object, key), zero ? -HUGE_VAL : number(object, "log10_" + key)};
}

std::vector<double> numbers(const Json& value, const std::string& key) {
  std::vector<double> result;
  for (const Json& entry : value.is_array() ? value : Json::array({value})) {
    if (!entry.is_number()) refuse(fmt::format("'{}' holds {}, not a number", key, entry.dump()));
    result.push_back(entry.get<double>());
  }
  return result;
}

WeightFacts weight_facts(const Json& entry) {
  WeightFacts facts{.name = text(entry, "name"), .shape = {}, .method = text(entry, "method")};
  if (facts.method != "cholesky" && facts.method != "sums")
    refuse(fmt::format("{} is bounded by '{}', which is not known", facts.name, facts.method));
  for (const double size : numbers(field(entry, "shape"), "shape")) facts.shape.push_back(std::llround(size));
  static const std::set<std::string> known{"norm",           "heads",           "scaled_heads",
                                           "scaled_columns", "largest_row_rms", "largest_entry",
                                           "euclidean",      "euclidean_heads"};
  for (const auto& [key, value] : entry.items()) {
    if (key == "name" || key == "shape" || key == "method") continue;
    if (key == "scales")
      facts.scales = numbers(value, key);
    else if (known.contains(key))
      facts.numbers[key] = numbers(value, key);
    else
      refuse(fmt::format("{} states '{}', which is not known", facts.name, key));
  }
  return facts;
}

const Json& list(const Json& object, const std::string& key) {
  const Json& value = field(object, key);
  if (!value.is_array()) refuse(fmt::format("'{}' is not a list", key));
  return value;
}

// Whatever is in the file and was not read, or not in this form, would ride along unproved. Shares are logarithms, so they
// may differ in the last digits.
void refuse_other_fields(const Certificate& read, const Json& json) {
  Json again = to_json(read);
  for (size_t i = 0; i < again["layers"].size(); ++i) {
    const Json& said = field(json.at("layers").at(i), "share");
    Json& is = again["layers"][i]["share"];
    const bool same = said.is_number() && is.is_number()
                          ? std::abs(said.get<double>() - is.get<double>()) <= 1e-6
                          : said == is;
    if (!same)
      refuse(fmt::format("the share of {} is stated as {}; it is {}", read.bound.layers[i].name, said.dump(),
                         is.dump()));
    is = said;
  }
  for (const auto& [key, value] : json.items()) {
    if (!again.contains(key)) refuse(fmt::format("'{}' is no field of a certificate", key));
    if (!(nlohmann::json(value) == nlohmann::json(again.at(key))))
      refuse(fmt::format("'{}' holds something that is not of a certificate", key));
  }
}

}  // namespace

ModelIdentity identity_of(const Path& folder) {
  const Path config = folder / "config.json";
  return {sha256_of_file(folder / kWeights), parse_json(read_file(config), "model", config.string())};
}

std::unique_ptr<Model> read_identified_model(const Path& folder, ModelIdentity& identity) {
  identity = identity_of(folder);
  auto model = read_model(folder, options_from(identity.config, folder / "config.json"));
  if (sha256_of_file(folder / kWeights) != identity.sha256)
    throw InputError("model", fmt::format("{} changed while it was read; is its run still training?",
                                          (folder / kWeights).string()));
  return model;
}

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
  return {{"schema", kSchema},
          {"version", certificate.version},
          {"formula", "sound"},
          {"certified", true},
          {"norm", kNorm},
          {"lipschitz", finite_or_null(bound.lipschitz.value)},
          {"log10_lipschitz", finite_or_null(bound.lipschitz.log10)},
          {"largest_logit_lipschitz", finite_or_null(bound.largest_logit.value)},
          {"log10_largest_logit_lipschitz", finite_or_null(bound.largest_logit.log10)},
          {"token_radius", bound.token_radius},
          {"attack_radius", bound.attack_radius},
          {"domain_radius", bound.domain_radius},
          {"observed_lipschitz", certificate.observed ? Json(*certificate.observed) : Json(nullptr)},
          {"weights", {{"file", kWeights}, {"sha256", certificate.sha256}, {"dtype", certificate.dtype}}},
          {"architecture", certificate.architecture},
          {"layers", layers_json(bound)},
          {"matrices", matrices_json(bound)}};
}

void write_certificate(const Path& path, const Certificate& certificate) {
  write_file(path, to_json(certificate).dump(2) + "\n");
}

Certificate read_certificate(const Path& path) {
  const std::string bytes = read_file(path);
  if (const auto flaw = json_flaw(bytes)) refuse(fmt::format("{}: {}", path.string(), *flaw));
  const Json json = parse_json(bytes, "check", path.string());
  if (number(json, "schema") != kSchema)
    refuse(fmt::format("schema is {}; it is 1", field(json, "schema").dump()));
  if (text(json, "formula") != "sound" || field(json, "certified") != true || text(json, "norm") != kNorm)
    refuse("formula, certified and norm are not those of a certificate");
  const Json& weights = field(json, "weights");
  if (text(weights, "file") != kWeights)
    refuse(fmt::format("weights are in {}; they are in {}", text(weights, "file"), kWeights));
  Certificate result{.version = text(json, "version"),
                     .sha256 = text(weights, "sha256"),
                     .dtype = text(weights, "dtype"),
                     .architecture = field(json, "architecture"),
                     .bound = {.token_radius = number(json, "token_radius"),
                               .attack_radius = number(json, "attack_radius"),
                               .domain_radius = number(json, "domain_radius"),
                               .lipschitz = stated(json, "lipschitz"),
                               .largest_logit = {}},
                     .observed = {}};
  result.bound.largest_logit = stated(json, "largest_logit_lipschitz");
  if (!field(json, "observed_lipschitz").is_null()) result.observed = number(json, "observed_lipschitz");
  for (const Json& layer : list(json, "layers"))
    result.bound.layers.push_back(
        {text(layer, "name"), stated(layer, "activation"), stated(layer, "lipschitz")});
  for (const Json& entry : list(json, "matrices")) result.bound.weights.push_back(weight_facts(entry));
  refuse_other_fields(result, json);
  return result;
}

std::vector<std::string> check_certificate(const Certificate& certificate, const Path& folder) {
  const ModelIdentity identity = identity_of(folder);
  if (identity.sha256 != certificate.sha256)
    refuse(fmt::format("{} has SHA-256 {}; the certificate is about {}", (folder / kWeights).string(),
                       identity.sha256, certificate.sha256));
  if (!(nlohmann::json(identity.config) == nlohmann::json(certificate.architecture)))
    refuse(
        fmt::format("{} is another architecture than the certificate's", (folder / "config.json").string()));
  std::unique_ptr<Model> model;
  ModelIdentity read;
  try {
    model = read_identified_model(folder, read);
  } catch (const InputError& error) {  // the certificate is about something else, or about nothing
    refuse(error.what());
  }
  if (read.sha256 != certificate.sha256) refuse("the weights changed while they were checked");
  if (dtype_name(*model) != certificate.dtype)
    refuse(fmt::format("the weights are {}; {} is stated", dtype_name(*model), certificate.dtype));
  std::vector<std::string> loose = check_bound(*model, certificate.bound);
  if (certificate.observed &&
      !(*certificate.observed >= 0.0 && *certificate.observed <= certificate.bound.lipschitz.value))
    refuse(fmt::format("observed_lipschitz is {}, above the bound of {}", *certificate.observed,
                       certificate.bound.lipschitz.value));
  return loose;
}

std::map<std::string, std::string> certificate_metadata(const CertifiedBound& bound) {
  return {{"bridle_version", BRIDLE_VERSION},
          {"lipschitz", std::isfinite(bound.lipschitz.value) ? fmt::format("{}", bound.lipschitz.value)
                                                             : "see log10_lipschitz"},
          {"log10_lipschitz", fmt::format("{}", bound.lipschitz.log10)},
          {"lipschitz_norm", kNorm},
          {"domain_radius", fmt::format("{}", bound.domain_radius)}};
}

}  // namespace bridle
