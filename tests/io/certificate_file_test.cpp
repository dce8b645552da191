#include "io/certificate_file.h"

#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "base/files.h"
#include "bridle/error.h"
#include "bridle/safetensors.h"
#include "file_support.h"
#include "io/run_directory.h"
#include "nn_support.h"
#include "support.h"

namespace bridle {
namespace {

using Json = nlohmann::ordered_json;

// A certified model in a folder of its own.
struct Certified {
  explicit Certified(const ModelOptions& options = test::small_transformer()) {
    const auto model = make_model(options, 1);
    {
      const at::NoGradGuard no_gradients;
      uint64_t seed = 1;
      for (const Param& param : model->params())
        param.tensor.copy_(test::normal(param.tensor.sizes(), seed++).mul(0.3));
    }
    const CertifiedBound bound = certify(*model);
    write_model(*model, folder, certificate_metadata(bound));
    write_certificate(path(),
                      certificate_of(identity_of(folder), *model, bound, 0.5 * bound.lipschitz.value));
  }
  std::filesystem::path path() const { return folder / "certificate.json"; }
  Json json() const { return Json::parse(read_file(path())); }
  std::vector<std::string> check() const { return check_certificate(read_certificate(path()), folder); }
  // The certificate with a change made to it.
  void change(const std::function<void(Json&)>& edit) const {
    Json edited = json();
    edit(edited);
    write_file(path(), edited.dump());
  }
  test::TemporaryFolder folder;
};

TEST(CertificateFiles, AreReadBackAndHold) {
  for (const ModelOptions& options :
       {test::small_transformer(), ModelOptions{.kind = "mlp", .layer_sizes = {8, 6, 3}}}) {
    const Certified certified(options);
    EXPECT_TRUE(certified.check().empty());
    const Json json = certified.json();
    for (const char* key : {"formula", "certified", "log10_lipschitz", "lipschitz", "norm", "domain_radius",
                            "observed_lipschitz", "layers", "matrices", "version", "weights", "architecture"})
      EXPECT_TRUE(json.contains(key)) << key;
    EXPECT_EQ(to_json(read_certificate(certified.path())), json);
    const auto metadata = read_safetensors(certified.folder / "model.safetensors").metadata;
    EXPECT_EQ(metadata.at("log10_lipschitz"), fmt::format("{}", json["log10_lipschitz"].get<double>()));
  }
}

TEST(CertificateFiles, AreRefusedWhereTheyAreNotAboutTheFolder) {
  const Certified certified;
  const auto refused = [&](const std::function<void(Json&)>& edit, const char* part) {
    const std::string good = read_file(certified.path());
    certified.change(edit);
    EXPECT_ERROR(certified.check(), PromiseError, part);
    write_file(certified.path(), good);
  };
  refused([](Json& j) { j["weights"]["sha256"] = std::string(64, '0'); }, "SHA-256");
  refused([](Json& j) { j["weights"]["dtype"] = "BF16"; }, "the weights are F32");
  refused([](Json& j) { j["weights"]["file"] = "other"; }, "weights are in other");
  refused([](Json& j) { j["architecture"]["softmax_scale"] = 0.5; }, "another architecture");
  refused([](Json& j) { j["formula"] = "paper"; }, "not those of a certificate");
  refused([](Json& j) { j["certified"] = false; }, "not those of a certificate");
  refused([](Json& j) { j["schema"] = 2; }, "schema is 2");
  refused([](Json& j) { j.erase("layers"); }, "'layers' is missing");
  refused([](Json& j) { j["lipschitz"] = "small"; }, "not a number");
  refused([](Json& j) { j["lipschitz"] = nullptr, j["log10_lipschitz"] = nullptr; }, "both null");
  refused([](Json& j) { j["observed_lipschitz"] = 2.0 * j["lipschitz"].get<double>(); }, "above the bound");
  refused([](Json& j) { j["layers"][1]["share"] = 0.9; }, "the share of");
  refused([](Json& j) { j["matrices"][0]["surprise"] = 1.0; }, "not known");
  refused([](Json& j) { j["matrices"][0]["shape"] = {1, 1}; }, "another shape");
  refused([](Json& j) { j["matrices"][0]["method"] = "guess"; }, "which is not known");
  refused([](Json& j) { j["certified_accuracy"] = 1.0; }, "no field of a certificate");
  refused([](Json& j) { j["layers"][0]["note"] = 1; }, "'layers' holds something");
  refused([](Json& j) { j["weights"]["note"] = 1; }, "'weights' holds something");
  refused([](Json& j) { j["matrices"].back()["largest_entry"] = 0.0; }, "nothing asks for it");
  refused([](Json& j) { j["matrices"].back()["scales"] = {2.0, 1.0, 1.0, 1.0}; }, "nothing asks for them");
  EXPECT_TRUE(certified.check().empty());
}

TEST(CertificateFiles, AreNotSeenInTwoWays) {
  const Certified certified;
  std::string text = read_file(certified.path());
  text.insert(1, "\"lipschitz\": 1.0, ");
  write_file(certified.path(), text);
  EXPECT_ERROR(certified.check(), PromiseError, "'lipschitz' comes twice");
}

TEST(CertificateFiles, AreRefusedForAConfigurationThatIsNone) {
  const Certified certified;
  for (const char* damaged : {"", "{", "nonsense"}) {
    write_file(certified.folder / "config.json", damaged);
    EXPECT_ERROR(certified.check(), InputError, "is not JSON");
  }
}

TEST(CertificateFiles, SpeakOfFloat16AndBfloat16WeightsToo) {
  for (const at::ScalarType dtype : {at::kHalf, at::kBFloat16}) {
    const Certified source;
    const auto model = read_model(source.folder);
    SafetensorsFile file;
    for (const Param& param : model->params())
      file.tensors.emplace_back(param.name, param.tensor.detach().to(dtype));
    write_safetensors(source.folder / "model.safetensors", file);
    ModelIdentity identity;
    const auto rounded = read_identified_model(source.folder, identity);
    write_certificate(source.path(), certificate_of(identity, *rounded, certify(*rounded)));
    EXPECT_TRUE(source.check().empty());
  }
}

TEST(CertificateFiles, AreRefusedForOtherWeightsAndConfigurations) {
  const Certified certified;
  const auto weights = certified.folder / "model.safetensors";
  const std::string good = read_file(weights);
  std::string flipped = good;
  flipped[good.size() - 5] = static_cast<char>(flipped[good.size() - 5] ^ 1);
  write_file(weights, flipped);
  EXPECT_ERROR(certified.check(), PromiseError, "SHA-256");
  write_file(weights, good.substr(0, good.size() - 4));
  EXPECT_ERROR(certified.check(), PromiseError, "SHA-256");
  write_file(weights, good);
  // Both agree on another model, which the file does not hold.
  certified.change([](Json& j) { j["architecture"]["num_hidden_layers"] = 3; });
  write_file(certified.folder / "config.json", certified.json()["architecture"].dump());
  EXPECT_ERROR(certified.check(), PromiseError, "is missing");
  std::filesystem::remove(weights);
  EXPECT_ERROR(certified.check(), InputError, "model.safetensors");
}

TEST(CertificateFiles, ThatAreNotJsonAreTheUsersMistake) {
  const test::TemporaryFolder folder;
  write_file(folder / "certificate.json", "{\"schema\": 1");
  EXPECT_ERROR(read_certificate(folder / "certificate.json"), InputError, "truncated or damaged");
  EXPECT_ERROR(read_certificate(folder / "none.json"), InputError, "none.json");
}

}  // namespace
}  // namespace bridle
