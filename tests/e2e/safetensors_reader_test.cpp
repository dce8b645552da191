// A reader in Python that shares no code with ours finds what was written.
#include <ATen/ops/arange.h>
#include <ATen/ops/ones.h>
#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "bridle/safetensors.h"
#include "file_support.h"

namespace bridle {
namespace {

std::string output_of(const std::string& command) {
  std::FILE* pipe = popen(command.c_str(), "r");
  std::string text;
  for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) text += static_cast<char>(c);
  EXPECT_EQ(pclose(pipe), 0) << command;
  return text;
}

TEST(SafetensorsReader, InPythonFindsWhatWasWritten) {
  const test::TemporaryFolder folder;
  const std::filesystem::path path = folder / "a.safetensors";
  const at::Tensor values = at::arange(-6, 6).reshape({3, 4}).div(4);  // exact in every floating type
  write_safetensors(path, {.metadata = {{"format", "pt"}},
                           .tensors = {{"flags", values.gt(0)},
                                       {"double", values.to(at::kDouble)},
                                       {"single", values.t()},
                                       {"half", values.to(at::kHalf)},
                                       {"brain", values.slice(1, 1, 4).to(at::kBFloat16)},
                                       {"long", at::arange(-5, 3, at::kLong)},
                                       {"int", at::arange(-4, 3, at::kInt)},
                                       {"short", at::arange(-3, 3, at::kShort)},
                                       {"char", at::arange(-2, 1, at::kChar)},
                                       {"byte", at::arange(250, 256, at::kByte)},
                                       {"größe", at::ones({}, at::kBFloat16).mul(-1.5)},
                                       {"empty", at::ones({2, 0}, at::kFloat)}}});
  const auto found = nlohmann::json::parse(
      output_of(fmt::format("/usr/bin/python3 '{}' '{}'", BRIDLE_SAFETENSORS_READER, path.string())));
  EXPECT_EQ(found, nlohmann::json::parse(R"({"metadata": {"format": "pt"}, "tensors": [
    ["flags", "BOOL", [3, 4], 5, 45], ["double", "F64", [3, 4], -1.5, 27.5], ["single", "F32", [4, 3], -1.5, 11],
    ["half", "F16", [3, 4], -1.5, 27.5], ["brain", "BF16", [3, 3], 0, 19.5], ["long", "I64", [8], -12, 0],
    ["int", "I32", [7], -7, 7], ["short", "I16", [6], -3, 10], ["char", "I8", [3], -3, -1],
    ["byte", "U8", [6], 1515, 3805], ["größe", "BF16", [], -1.5, 0], ["empty", "F32", [2, 0], 0, 0]]})"));
}

}  // namespace
}  // namespace bridle
