#include "io/certificate_parse.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string_view>

#include "base/json_text.h"
#include "bridle/error.h"

namespace bridle {
namespace {

using Json = nlohmann::ordered_json;

const std::set<std::string> kSpectral{"norm", "heads", "scaled_heads", "scaled_columns"};
const std::set<std::string> kSums{"largest_row_rms", "largest_entry", "euclidean", "euclidean_heads"};

// The logarithm of the largest double: only a bound above it may be null.
constexpr double kLogOfLargest = 308.25471555991674;
constexpr double kShareTolerance = 1e-6;

[[noreturn]] void refuse(const std::string& what) { throw PromiseError("check", what); }

void expect_keys(const Json& object, size_t count, const std::string& what) {
  if (!object.is_object()) refuse(fmt::format("{} must be an object, got {}", what, shown(object)));
  if (object.size() != count)
    refuse(fmt::format("{} must have {} fields, got {}", what, count, object.size()));
}

const Json& field(const Json& object, std::string_view key) {
  const auto found = object.find(std::string(key));
  if (found == object.end()) refuse(fmt::format("'{}' is missing", key));
  return *found;
}

double number(const Json& value, std::string_view key) {
  if (!value.is_number()) refuse(fmt::format("'{}' must be a number, got {}", key, shown(value)));
  return value.get<double>();
}

double magnitude(const Json& value, std::string_view key) {
  const double result = number(value, key);
  if (!(result >= 0.0)) refuse(fmt::format("'{}' must not be negative, got {}", key, result));
  return result;
}

std::string text(const Json& object, std::string_view key) {
  const Json& value = field(object, key);
  if (!value.is_string()) refuse(fmt::format("'{}' must be a text, got {}", key, shown(value)));
  return value.get<std::string>();
}

void expect(const Json& object, std::string_view key, const Json& wanted) {
  if (!same_json(field(object, key), wanted))
    refuse(fmt::format("'{}' must be {}, got {}", key, wanted.dump(), shown(field(object, key))));
}

const Json& list(const Json& value, std::string_view key) {
  if (!value.is_array()) refuse(fmt::format("'{}' must be a list, got {}", key, shown(value)));
  return value;
}

// A bound beyond a double is null, and so is the logarithm of zero: nothing else is.
StatedBound stated(const Json& object, std::string_view key) {
  const std::string log_key = "log10_" + std::string(key);
  const Json& value = field(object, key);
  const Json& log = field(object, log_key);
  const StatedBound bound{value.is_null() ? HUGE_VAL : magnitude(value, key),
                          log.is_null() ? -HUGE_VAL : number(log, log_key)};
  if (log.is_null() != (bound.value == 0.0))
    refuse(fmt::format("'{}' must be null exactly where '{}' is 0, got {} and {}", log_key, key, shown(log),
                       shown(value)));
  if (value.is_null() && !(bound.log10 >= kLogOfLargest))
    refuse(fmt::format("'{}' must not be null where '{}' is {}, which fits a double", key, log_key,
                       bound.log10));
  return bound;
}

std::vector<double> magnitudes(const Json& value, std::string_view key) {
  std::vector<double> result;
  for (const Json& entry : list(value, key)) result.push_back(magnitude(entry, key));
  return result;
}

std::vector<int64_t> shape_of(const Json& entry) {
  std::vector<int64_t> shape;
  for (const Json& size : list(field(entry, "shape"), "shape")) {
    if (!size.is_number_integer()) refuse(fmt::format("'shape' holds {}, not an integer", shown(size)));
    shape.push_back(size.get<int64_t>());
  }
  return shape;
}

// Scales that are all 1 would say nothing.
std::vector<double> scales_of(const Json& value) {
  std::vector<double> scales = magnitudes(value, "scales");
  if (std::all_of(scales.begin(), scales.end(), [](double s) { return s == 1.0; }))
    refuse("'scales' must not all be 1");
  return scales;
}

WeightFacts weight_facts(const Json& entry) {
  if (!entry.is_object()) refuse(fmt::format("'matrices' must hold objects, got {}", shown(entry)));
  WeightFacts facts{.name = text(entry, "name"), .shape = shape_of(entry), .method = text(entry, "method")};
  bool spectral = false;
  for (const auto& [key, value] : entry.items()) {
    if (key == "name" || key == "shape" || key == "method") continue;
    spectral = spectral || kSpectral.contains(key);
    if (key == "scales")
      facts.scales = scales_of(value);
    else if (!kSpectral.contains(key) && !kSums.contains(key))
      refuse(fmt::format("{} states '{}', which is not known", facts.name, key));
    else if (states_list(key))
      facts.numbers[key] = magnitudes(value, key);
    else
      facts.numbers[key] = {magnitude(value, key)};
  }
  expect(entry, "method", spectral ? "cholesky" : "sums");
  return facts;
}

// Shares are quotients of logarithms, so they may differ in the last digits.
void check_share(const Json& layer, double share) {
  const Json& said = field(layer, "share");
  const bool same = std::isfinite(share)
                        ? said.is_number() && std::abs(said.get<double>() - share) <= kShareTolerance
                        : said.is_null();
  if (!same)
    refuse(fmt::format("the share of {} must be {}, got {}", shown(layer.at("name")),
                       std::isfinite(share) ? fmt::format("{}", share) : "null", shown(said)));
}

void parse_layers(const Json& layers, CertifiedBound& bound) {
  double before = 0.0;
  for (const Json& layer : list(layers, "layers")) {
    expect_keys(layer, 6, "a layer");
    bound.layers.push_back({text(layer, "name"), stated(layer, "activation"), stated(layer, "lipschitz")});
    const double log10 = bound.layers.back().lipschitz.log10;
    check_share(layer, layer_share(log10, before, bound.lipschitz.log10));
    before = log10;
  }
}

}  // namespace

Certificate parse_certificate(const Json& json) {
  expect_keys(json, 17, "a certificate");
  expect(json, "schema", kCertificateSchema);
  expect(json, "formula", "sound");
  expect(json, "certified", true);
  expect(json, "norm", kCertificateNorm);
  const Json& weights = field(json, "weights");
  expect_keys(weights, 3, "'weights'");
  expect(weights, "file", kCertificateWeights);
  Certificate result{.version = text(json, "version"),
                     .sha256 = text(weights, "sha256"),
                     .dtype = text(weights, "dtype"),
                     .architecture = field(json, "architecture").dump(),
                     .bound = {},
                     .observed = {}};
  const auto radius = [&json](const char* key) { return magnitude(field(json, key), key); };
  result.bound.token_radius = radius("token_radius");
  result.bound.attack_radius = radius("attack_radius");
  result.bound.domain_radius = radius("domain_radius");
  result.bound.lipschitz = stated(json, "lipschitz");
  result.bound.largest_logit = stated(json, "largest_logit_lipschitz");
  if (!field(json, "observed_lipschitz").is_null()) result.observed = radius("observed_lipschitz");
  if (result.observed && *result.observed > result.bound.lipschitz.value)
    refuse(fmt::format("observed_lipschitz is {}, above the bound of {}", *result.observed,
                       result.bound.lipschitz.value));
  parse_layers(field(json, "layers"), result.bound);
  for (const Json& entry : list(field(json, "matrices"), "matrices"))
    result.bound.weights.push_back(weight_facts(entry));
  return result;
}

}  // namespace bridle
