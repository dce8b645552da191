// Exported files pass ONNX's own checker, and a runtime that shares no code with Bridle computes the same logits of them.
#include "io/export_onnx.h"

#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/subprocess.h"
#include "bridle/error.h"
#include "bridle/safetensors.h"
#include "export_support.h"
#include "file_support.h"
#include "support.h"

namespace bridle {
namespace {

std::vector<test::NamedModel> all_models() {
  auto models = test::exported_mlps();
  for (const test::NamedModel& own : test::exported_transformers()) models.push_back(own);
  return models;
}

// Of a hundred transformers' sequences the length is not a power of two, and not the longest.
void write_with_examples(const test::NamedModel& own, int64_t count, const std::filesystem::path& place) {
  const auto model = test::trained_like(own.options);
  const ModelShape shape = model->shape();
  make_folder(place);
  write_file(place / "model.onnx", onnx_bytes(*model, own.name, {{"key", "value"}}));
  const at::Tensor inputs =
      shape.input == InputKind::vectors
          ? test::normal({count, shape.size}, 3, at::kFloat)
          : test::normal({count, 19}, 3).mul(1e4).to(at::kLong).remainder(shape.outputs);
  Pass pass{.dtype = at::kDouble};
  write_safetensors(
      place / "examples.safetensors",
      {.metadata = {}, .tensors = {{"inputs", inputs}, {"logits", model->forward(inputs, pass)}}});
}

TEST(AnOnnxFile, PassesOnnxsChecker) {
  const at::NoGradGuard no_gradients;
  const test::TemporaryFolder folder;
  if (run_program({"/usr/bin/python3", "-c", "import onnx"}, folder).exit_code != 0)
    GTEST_SKIP() << "ONNX IS MISSING (python3-onnx): files were not checked";
  std::vector<std::string> command{"/usr/bin/python3", "-c",
                                   "import onnx, sys\n"
                                   "for path in sys.argv[1:]:\n"
                                   "    onnx.checker.check_model(onnx.load(path), full_check=True)\n"};
  for (const test::NamedModel& own : all_models()) {
    write_with_examples(own, 1, folder / own.name);
    command.push_back((folder / own.name / "model.onnx").string());
  }
  const ProgramResult seen = run_program(command, folder);
  EXPECT_EQ(seen.exit_code, 0) << seen.errors;
}

TEST(OnnxRuntime, ComputesTheLogitsOfEveryKindOfModel) {
  const at::NoGradGuard no_gradients;
  const test::TemporaryFolder folder;
  std::vector<std::string> command{"node", BRIDLE_ONNX_RUNNER, BRIDLE_ONNX_PACKAGES};
  const auto models = all_models();
  for (const test::NamedModel& own : models) {
    const bool vectors = std::holds_alternative<MlpOptions>(own.options);
    write_with_examples(own, vectors ? 1000 : 60, folder / own.name);
    command.push_back((folder / own.name).string());
  }
  const ProgramResult seen = run_program(command, folder);
  ASSERT_EQ(seen.exit_code, 0) << seen.errors;
  const auto results = nlohmann::json::parse(seen.output);
  ASSERT_EQ(results.size(), models.size());
  for (const auto& result : results) {
    ASSERT_TRUE(result.at("difference").is_number()) << result.dump();
    const double largest = result.at("largest").get<double>();
    EXPECT_LE(result.at("difference").get<double>(), 1e-5 * std::max(1.0, largest / 10.0)) << result.dump();
    EXPECT_GT(largest, 0.1) << result.dump();
  }
}

TEST(AnOnnxFile, IsRefusedForWhatItHasNoOperationsFor) {
  for (const test::NamedModel& own : test::torch_only_transformers())
    EXPECT_ERROR(onnx_bytes(*test::trained_like(own.options), "model", {}), InputError, "--format torch has");
}

}  // namespace
}  // namespace bridle
