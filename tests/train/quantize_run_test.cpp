#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/subprocess.h"
#include "bridle/certificate_file.h"
#include "bridle/error.h"
#include "bridle/quantize.h"
#include "bridle/run.h"
#include "bridle/safetensors.h"
#include "export_support.h"
#include "file_support.h"
#include "train_support.h"

namespace bridle {
namespace {

// What int8.safetensors holds is the model, entry by entry.
void expect_same_weights(const std::filesystem::path& folder) {
  const SafetensorsFile whole = read_safetensors(folder / "model.safetensors");
  const SafetensorsFile small = read_safetensors(folder / "int8.safetensors");
  int64_t integers = 0;
  for (const auto& [name, values] : whole.tensors) {
    const at::Tensor& own = small.at(name);
    if (own.scalar_type() != at::kChar) {
      EXPECT_TRUE(own.equal(values)) << name;
      continue;
    }
    ++integers;
    const at::Tensor exact = own.to(at::kDouble).mul(small.at(name + ".scale").to(at::kDouble).unsqueeze(1));
    EXPECT_TRUE(exact.equal(values.to(at::kDouble))) << name;
  }
  EXPECT_GT(integers, 0);
}

void expect_both_checkers(const std::filesystem::path& folder) {
  EXPECT_TRUE(check_certificate(folder / "certificate.json", folder).loose.empty());
  const ProgramResult other = run_program(
      {"/usr/bin/python3", BRIDLE_CHECK_CERTIFICATE, (folder / "certificate.json").string()}, folder);
  EXPECT_EQ(other.exit_code, 0) << other.output << other.errors;
}

TEST(AQuantisedRun, IsCertifiedStaysNearAndSaysHowNear) {
  const test::TemporaryData data;
  const auto run = test::short_run(data);
  const QuantizeResult result = quantize_model(run.folder, data / "int8");
  EXPECT_LT(result.bytes_after, result.bytes_before / 2);
  ASSERT_TRUE(result.loss_before && result.loss_after);
  EXPECT_NEAR(*result.loss_before, *result.loss_after, 0.02);
  EXPECT_GT(result.observed_deviation, 0.0);
  EXPECT_LE(result.observed_deviation, result.deviation.value);
  EXPECT_LE(result.deviation.value, result.largest_logit_deviation.value);
  expect_same_weights(data / "int8");
  expect_both_checkers(data / "int8");
  EXPECT_EQ(open_run(data / "int8").options.data.name, "words");
  const auto stated = nlohmann::json::parse(read_file(data / "int8" / "quantization.json"));
  EXPECT_EQ(stated.at("deviation_bound").get<double>(), result.deviation.value);
  EXPECT_ERROR(quantize_model(run.folder, data / "int8"), InputError, "is there already");
}

TEST(AQuantisedModel, IsBroughtBelowABoundByItsHead) {
  const test::TemporaryFolder folder;
  for (const test::NamedModel& own : {test::exported_mlps().front(), test::exported_transformers().back()}) {
    make_folder(folder / own.name);
    write_model(*test::trained_like(own.options), folder / own.name);
    const double before = certify(*test::trained_like(own.options)).lipschitz.value;
    const QuantizeResult result =
        quantize_model(folder / own.name, folder / (own.name + "_int8"), 0.9 * before);
    EXPECT_LE(result.bound.lipschitz.value, 0.9 * before) << own.name;
    EXPECT_GT(result.bound.lipschitz.value, 0.899 * before) << own.name;
    EXPECT_LT(result.head_scale, 0.92);
    EXPECT_NE(result.no_loss.find("not a run"), std::string::npos);
    expect_same_weights(folder / (own.name + "_int8"));
    expect_both_checkers(folder / (own.name + "_int8"));
  }
}

TEST(AQuantisation, RefusesWhatItCannotDoAndLeavesNothing) {
  const test::TemporaryFolder folder;
  TransformerOptions tied = std::get<TransformerOptions>(test::exported_transformers().front().options);
  tied.tie_embeddings = true;
  make_folder(folder / "tied");
  write_model(*test::trained_like(tied), folder / "tied");
  EXPECT_ERROR(quantize_model(folder / "tied", folder / "out", 1e-3), PromiseError, "tie_embeddings");
  EXPECT_ERROR(quantize_model(folder / "tied", folder / "out", -1.0), InputError, "must be positive, got -1");
  EXPECT_ERROR(quantize_model(folder / "none", folder / "out"), InputError, "is not a folder");
  const auto broken = test::trained_like(MlpOptions{.layer_sizes = {4, 3}});
  {
    const at::NoGradGuard no_gradients;
    broken->params().front().tensor[0][0].fill_(std::numeric_limits<float>::infinity());
  }
  make_folder(folder / "broken");
  write_model(*broken, folder / "broken");
  EXPECT_ERROR(quantize_model(folder / "broken", folder / "out"), PromiseError, "holds NaN or infinity");
  {
    const test::FileSizeLimit limit(2048);
    EXPECT_THROW(quantize_model(folder / "tied", folder / "out"), InputError);
  }
  EXPECT_EQ(test::entries(folder), (std::vector<std::string>{"broken", "tied"}));
}

}  // namespace
}  // namespace bridle
