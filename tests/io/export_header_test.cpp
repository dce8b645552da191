// Headers are compiled with warnings as errors, run, and compared with the model.
#include "io/export_header.h"

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <sstream>

#include "base/files.h"
#include "base/subprocess.h"
#include "bridle/error.h"
#include "export_support.h"
#include "file_support.h"
#include "support.h"

namespace bridle {
namespace {

// Prints the logits of rows of numbers from standard input, as evaluate<Real, Sum> has them.
std::string main_of(const std::string& name, const char* types) {
  return fmt::format(
      "  if (std::string(argv[1]) == \"{0}\") {{\n"
      "    std::ifstream in(argv[2]);\n"
      "    {1} x[{0}::kInputs], y[{0}::kOutputs];\n"
      "    while (in >> x[0]) {{\n"
      "      for (int i = 1; i < {0}::kInputs; ++i) in >> x[i];\n"
      "      {0}::evaluate(x, y);\n"
      "      for (int i = 0; i < {0}::kOutputs; ++i) std::printf(\"%.17g\\n\", static_cast<double>(y[i]));\n"
      "    }}\n"
      "  }}\n",
      name, types);
}

std::string rows_text(const at::Tensor& inputs) {
  std::string text;
  for (int64_t i = 0; i < inputs.size(0); ++i)
    for (int64_t j = 0; j < inputs.size(1); ++j)
      text += fmt::format("{:.17g}{}", inputs[i][j].item<double>(), j + 1 == inputs.size(1) ? "\n" : " ");
  return text;
}

void expect_agreement(const char* real, double tolerance) {
  const at::NoGradGuard no_gradients;
  const test::TemporaryFolder folder;
  std::string text = "#include <cstdio>\n#include <fstream>\n#include <string>\n";
  std::string body;
  const auto models = test::exported_mlps();
  for (const test::NamedModel& own : models) {
    const auto model = test::trained_like(own.options);
    write_file(folder / (own.name + ".h"), header_text(*model, {.name = own.name, .sha256 = "abc"}));
    text += fmt::format("#include \"{}.h\"\n", own.name);
    body += main_of(own.name, real);
  }
  write_file(folder / "main.cpp", text + "int main(int, char** argv) {\n" + body + "}\n");
  const ProgramResult built = run_program({"c++", "-std=c++11", "-O1", "-Wall", "-Wextra", "-Wconversion",
                                           "-Wshadow", "-Werror", "main.cpp", "-o", "main"},
                                          folder);
  ASSERT_EQ(built.exit_code, 0) << built.errors;
  for (const test::NamedModel& own : models) {
    const auto model = test::trained_like(own.options);
    const at::Tensor inputs = test::normal({50, 12}, 3, at::kFloat).to(at::kDouble);
    write_file(folder / "inputs", rows_text(inputs));
    const ProgramResult seen = run_program({(folder / "main").string(), own.name, "inputs"}, folder);
    ASSERT_EQ(seen.exit_code, 0) << seen.errors;
    Pass pass{.dtype = at::kDouble};
    const at::Tensor logits = model->forward(inputs, pass).reshape({-1});
    std::istringstream numbers(seen.output);
    for (int64_t i = 0; i < logits.numel(); ++i) {
      double value = 0.0;
      ASSERT_TRUE(numbers >> value) << own.name;
      EXPECT_NEAR(value, logits[i].item<double>(), tolerance * std::max(1.0, std::abs(value)))
          << own.name << " " << i;
    }
  }
}

TEST(AHeader, AgreesWithItsModelInFloatAndInDouble) {
  expect_agreement("float", 1e-6);
  expect_agreement("double", 1e-12);
}

TEST(AHeader, SaysWhatIsCertifiedAndHowRawInputsAreStandardised) {
  const auto model = test::trained_like(MlpOptions{.layer_sizes = {6, 4, 3}});
  const CertifiedBound bound = certify(*model);
  const std::string text = header_text(
      *model, {.name = "net",
               .sha256 = "123",
               .bound = bound,
               .standard = Standardisation{.mean = {0.5, 0.25}, .deviation = {2.0, 4.0}, .each = 3}});
  EXPECT_NE(text.find(fmt::format("kLipschitz = {:.17e}", bound.lipschitz.value)), std::string::npos);
  const test::TemporaryFolder folder;
  write_file(folder / "net.h", text);
  write_file(folder / "main.cpp",
             "#include \"net.h\"\nint main() {\n  const double raw[6] = {1.5, 1.5, 1.5, 1.25, 1.25, 5.25};\n"
             "  double x[6];\n  net::standardise(raw, x);\n"
             "  return x[0] == 0.5 && x[2] == 0.5 && x[3] == 0.25 && x[5] == 1.25 && net::kLipschitz > 0 ? 0 "
             ": 1;\n}\n");
  EXPECT_EQ(run_program({"c++", "-std=c++11", "main.cpp", "-o", "main"}, folder).exit_code, 0);
  EXPECT_EQ(run_program({(folder / "main").string()}, folder).exit_code, 0);
}

TEST(AHeader, IsOnlyForSmallMlpsWithFiniteWeights) {
  const auto transformer = test::trained_like(test::exported_transformers().front().options);
  EXPECT_ERROR(header_text(*transformer, {.name = "x"}), InputError, "--format header is for MLPs");
  const auto large = make_model(MlpOptions{.layer_sizes = {2048, 1025, 3}}, std::nullopt);
  EXPECT_ERROR(header_text(*large, {.name = "x"}), InputError, "up to 2097152 weights");
  const auto broken = test::trained_like(MlpOptions{.layer_sizes = {4, 3}});
  const at::NoGradGuard no_gradients;
  broken->params().front().tensor[0][0].fill_(std::numeric_limits<float>::quiet_NaN());
  EXPECT_ERROR(header_text(*broken, {.name = "x"}), InputError, "model.layers.0.weight holds NaN");
}

TEST(AHeader, HasANameThatCompiles) {
  EXPECT_EQ(identifier_of("controller"), "controller");
  EXPECT_EQ(identifier_of("my-net.v2"), "my_net_v2");
  EXPECT_EQ(identifier_of("2nd"), "model_2nd");
  EXPECT_EQ(identifier_of("float"), "model_float");
  EXPECT_EQ(identifier_of(""), "model_");
}

}  // namespace
}  // namespace bridle
