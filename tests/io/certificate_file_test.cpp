#include "io/certificate_file.h"

#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/checksum.h"
#include "base/files.h"
#include "bridle/error.h"
#include "bridle/safetensors.h"
#include "file_support.h"
#include "io/model_folder.h"
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
    const ModelIdentity written = write_model(*model, folder, certificate_metadata(bound));
    write_certificate(path(), certificate_of(written, *model, bound, 0.5 * bound.lipschitz.value));
  }
  std::filesystem::path path() const { return folder / "certificate.json"; }
  Json json() const { return Json::parse(read_file(path())); }
  std::vector<std::string> check() const { return check_certificate(path(), folder).loose; }
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
       {ModelOptions(test::small_transformer()), ModelOptions(MlpOptions{.layer_sizes = {8, 6, 3}})}) {
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
  refused([](Json& j) { j["weights"]["file"] = "other"; },
          "'file' must be \"model.safetensors\", got \"other\"");
  refused([](Json& j) { j["architecture"]["softmax_scale"] = 0.5; }, "another architecture");
  refused([](Json& j) { j["formula"] = "paper"; }, "'formula' must be \"sound\", got \"paper\"");
  refused([](Json& j) { j["certified"] = false; }, "'certified' must be true");
  refused([](Json& j) { j["schema"] = 2; }, "'schema' must be 1, got 2");
  refused([](Json& j) { j.erase("layers"); }, "must have 17 fields, got 16");
  refused([](Json& j) { j["lipschitz"] = "small"; }, "must be a number");
  refused([](Json& j) { j["lipschitz"] = nullptr, j["log10_lipschitz"] = nullptr; },
          "must be null exactly where");
  refused([](Json& j) { j["observed_lipschitz"] = 2.0 * j["lipschitz"].get<double>(); }, "above the bound");
  refused([](Json& j) { j["layers"][1]["share"] = 0.9; }, "the share of");
  refused([](Json& j) { j["matrices"][0]["extra"] = 1.0; }, "not known");
  refused([](Json& j) { j["matrices"][0]["shape"] = {1, 1}; }, "another shape");
  refused([](Json& j) { j["matrices"][0]["method"] = "guess"; }, "'method' must be \"sums\"");
  refused([](Json& j) { j["certified_accuracy"] = 1.0; }, "must have 17 fields, got 18");
  refused([](Json& j) { j["layers"][0]["note"] = 1; }, "a layer must have 6 fields, got 7");
  refused([](Json& j) { j["weights"]["note"] = 1; }, "'weights' must have 3 fields, got 4");
  refused([](Json& j) { j["matrices"].back()["largest_entry"] = 0.0; }, "nothing asks for it");
  refused([](Json& j) { j["matrices"].back()["scales"] = {2.0, 1.0, 1.0, 1.0}; }, "nothing asks for them");
  EXPECT_TRUE(certified.check().empty());
}

TEST(CertificateFiles, AreNotSeenInTwoWays) {
  const Certified certified;
  std::string text = read_file(certified.path());
  text.insert(1, "\"lipschitz\": 1.0, ");
  write_file(certified.path(), text);
  EXPECT_ERROR(certified.check(), InputError, "'lipschitz' comes twice");
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
    const auto model = read_model(source.folder).model;
    SafetensorsFile file;
    for (const Param& param : model->params())
      file.tensors.emplace_back(param.name, param.tensor.detach().to(dtype));
    write_safetensors(source.folder / "model.safetensors", file);
    const StoredModel rounded = read_model(source.folder);
    write_certificate(source.path(),
                      certificate_of(rounded.identity, *rounded.model, certify(*rounded.model)));
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
  EXPECT_ERROR(certified.check(), PromiseError, "go past the");
  write_file(weights, good);
  // Both agree on another model, which the file does not hold.
  certified.change([](Json& j) { j["architecture"]["num_hidden_layers"] = 3; });
  write_file(certified.folder / "config.json", certified.json()["architecture"].dump());
  EXPECT_ERROR(certified.check(), PromiseError, "is missing");
  std::filesystem::remove(weights);
  EXPECT_ERROR(certified.check(), InputError, "model.safetensors");
}

// How often each file of a folder is opened, as the kernel sees it.
class Opens {
 public:
  explicit Opens(const std::filesystem::path& folder) : descriptor_(::inotify_init1(IN_NONBLOCK)) {
    ::inotify_add_watch(descriptor_, folder.c_str(), IN_OPEN);
  }
  ~Opens() { ::close(descriptor_); }
  Opens(const Opens&) = delete;
  Opens& operator=(const Opens&) = delete;
  std::map<std::string, int> count() const {
    std::map<std::string, int> result;
    alignas(inotify_event) std::array<char, 65536> buffer{};
    for (ssize_t size = ::read(descriptor_, buffer.data(), buffer.size()), at = 0; at < size;) {
      const auto* event = reinterpret_cast<const inotify_event*>(buffer.data() + at);
      if (event->len > 0) ++result[event->name];
      at += static_cast<ssize_t>(sizeof(inotify_event) + event->len);
    }
    return result;
  }

 private:
  int descriptor_;
};

TEST(CertificateFiles, AreOpenedOnceAndSoAreTheModels) {
  const Certified certified;
  const Opens opens(certified.folder);
  EXPECT_TRUE(certified.check().empty());
  const std::map<std::string, int> once{
      {"certificate.json", 1}, {"config.json", 1}, {"model.safetensors", 1}};
  EXPECT_EQ(opens.count(), once);
}

TEST(CertificateFiles, SpeakOfTheBytesThatWereRead) {
  const Certified first;
  const Certified second(MlpOptions{.layer_sizes = {8, 6, 3}});
  ModelFiles files(first.folder);
  for (const char* name : {"config.json", "model.safetensors"})  // both are replaced once they are open
    write_file(first.folder / name, read_file(second.folder / name));
  const StoredModel stored = files.read();
  EXPECT_EQ(stored.model->shape().input, InputKind::tokens);
  EXPECT_EQ(nlohmann::ordered_json::parse(stored.identity.config), first.json()["architecture"]);
  EXPECT_EQ(stored.identity.sha256, first.json()["weights"]["sha256"].get<std::string>());
  EXPECT_ERROR(first.check(), PromiseError, "another architecture");
}

TEST(CertificateFiles, OfARunSpeakOfTheBytesThatWereWritten) {
  const Certified certified;
  const auto model = read_model(certified.folder).model;
  const ModelIdentity written = write_model(*model, certified.folder);
  EXPECT_EQ(written.sha256, sha256_of_file(certified.folder / "model.safetensors"));
  EXPECT_EQ(written.config, read_file(certified.folder / "config.json"));
}

TEST(CertificateFiles, AreRefusedForNanInAPaddedRow) {
  TransformerOptions options = test::small_transformer();
  options.real_vocab_size = options.vocab_size - 1;
  const Certified certified(options);
  const StoredModel stored = read_model(certified.folder);
  {
    const at::NoGradGuard no_gradients;
    for (const Param& param : stored.model->params())
      if (param.role == Role::head) param.tensor[-1].fill_(std::nan(""));
  }
  EXPECT_ERROR(certify(*stored.model), PromiseError, "lm_head.weight holds NaN");
  const ModelIdentity written = write_model(*stored.model, certified.folder);
  certified.change([&](Json& j) { j["weights"]["sha256"] = written.sha256; });
  EXPECT_ERROR(certified.check(), PromiseError, "lm_head.weight holds NaN");
}

TEST(CertificateFiles, AreAboutDomainsThatAreFinite) {
  const auto model = make_model(MlpOptions{.layer_sizes = {4, 3}, .input_bound = 1e308}, 1);
  EXPECT_ERROR(certify(*model, 1.79e308), InputError, "the radius must leave the inputs' norm finite");
}

TEST(CertificateFiles, ThatAreNotJsonAreTheUsersMistake) {
  const test::TemporaryFolder folder;
  write_file(folder / "certificate.json", "{\"schema\": 1");
  EXPECT_ERROR(read_certificate(folder / "certificate.json"), InputError, "truncated or damaged");
  EXPECT_ERROR(read_certificate(folder / "none.json"), InputError, "none.json");
}

}  // namespace
}  // namespace bridle
