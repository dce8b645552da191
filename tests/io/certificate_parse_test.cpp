#include "io/certificate_parse.h"

#include <gtest/gtest.h>

#include "bridle/error.h"
#include "file_support.h"

namespace bridle {
namespace {

using Json = nlohmann::ordered_json;

// Of an MLP with one layer, W = [[2]].
Json good() {
  return Json::parse(R"({
    "schema": 1, "version": "0", "formula": "sound", "certified": true, "norm": "RMS to RMS, largest over tokens",
    "lipschitz": 2.0, "log10_lipschitz": 0.31, "largest_logit_lipschitz": 2, "log10_largest_logit_lipschitz": 0.31,
    "token_radius": 1.0, "attack_radius": 0.0, "domain_radius": 1.0, "observed_lipschitz": null,
    "weights": {"file": "model.safetensors", "sha256": "", "dtype": "F32"}, "architecture": {},
    "layers": [{"name": "model.layers.0", "activation": 2.0, "lipschitz": 2.0, "log10_activation": 0.31,
                "log10_lipschitz": 0.31, "share": 1.0}],
    "matrices": [{"name": "model.layers.0.weight", "shape": [1, 1], "method": "cholesky", "norm": 2.0,
                  "largest_row_rms": 2.0}]})");
}

void refused(const std::function<void(Json&)>& edit, const char* part) {
  Json json = good();
  edit(json);
  EXPECT_ERROR(parse_certificate(json), PromiseError, part);
}

TEST(CertificateParse, ReadsWhatIsThere) {
  const Certificate certificate = parse_certificate(good());
  EXPECT_EQ(certificate.bound.lipschitz.value, 2.0);
  EXPECT_EQ(certificate.bound.layers.at(0).name, "model.layers.0");
  EXPECT_EQ(certificate.bound.weights.at(0).numbers.at("largest_row_rms"), std::vector<double>{2.0});
  EXPECT_FALSE(certificate.observed);
}

TEST(CertificateParse, TakesNumbersOfTheirOwnType) {
  refused([](Json& j) { j["schema"] = 1.0; }, "'schema' must be 1, got 1.0");
  refused([](Json& j) { j["schema"] = true; }, "'schema' must be 1");
  refused([](Json& j) { j["certified"] = 1; }, "'certified' must be true");
  refused([](Json& j) { j["domain_radius"] = nullptr; }, "'domain_radius' must be a number, got null");
  refused([](Json& j) { j["domain_radius"] = true; }, "must be a number");
  refused([](Json& j) { j["attack_radius"] = -1; }, "must not be negative");
  refused([](Json& j) { j["observed_lipschitz"] = -1; }, "must not be negative");
  refused([](Json& j) { j["matrices"][0]["shape"] = {1.0, 1.0}; }, "not an integer");
  refused([](Json& j) { j["matrices"][0]["norm"] = {2.0}; }, "must be a number");
  refused([](Json& j) { j["matrices"][0]["heads"] = 2.0; }, "must be a list");
  refused([](Json& j) { j["matrices"] = Json::object(); }, "must be a list");
  refused([](Json& j) { j["matrices"][0] = 1; }, "must hold objects");
  refused([](Json& j) { j = Json::array(); }, "must be an object");
}

TEST(CertificateParse, TakesNullOnlyWhereItSaysSomething) {
  refused([](Json& j) { j["lipschitz"] = nullptr; }, "which fits a double");
  refused([](Json& j) { j["lipschitz"] = nullptr, j["log10_lipschitz"] = 308.2; }, "which fits a double");
  refused([](Json& j) { j["log10_lipschitz"] = nullptr; }, "must be null exactly where");
  refused([](Json& j) { j["lipschitz"] = 0; }, "must be null exactly where");
  refused([](Json& j) { j["layers"][0]["activation"] = nullptr; }, "which fits a double");
  Json huge = good();
  huge["layers"][0]["activation"] = nullptr;
  huge["layers"][0]["log10_activation"] = 308.2548;
  EXPECT_TRUE(std::isinf(parse_certificate(huge).bound.layers[0].activation.value));
}

TEST(CertificateParse, TakesTheMethodThatTheNumbersHave) {
  refused([](Json& j) { j["matrices"][0]["method"] = "gram"; }, "'method' must be \"cholesky\"");
  refused([](Json& j) { j["matrices"][0]["method"] = "sums"; }, "'method' must be \"cholesky\"");
  refused([](Json& j) { j["matrices"][0].erase("norm"); }, "'method' must be \"sums\"");
  refused([](Json& j) { j["matrices"][0]["scales"] = {1, 1.0}; }, "must not all be 1");
  refused([](Json& j) { j["matrices"][0]["scales"] = Json::array(); }, "must not all be 1");
}

TEST(CertificateParse, ComparesShares) {
  refused([](Json& j) { j["layers"][0]["share"] = 0.99; }, "must be 1, got 0.99");
  refused([](Json& j) { j["layers"][0]["share"] = nullptr; }, "must be 1, got null");
  refused([](Json& j) { j["log10_lipschitz"] = 0; }, "must be null, got 1.0");
  Json near = good();
  near["layers"][0]["share"] = 1.0000001;
  parse_certificate(near);
}

}  // namespace
}  // namespace bridle
