// The exported module, in plain PyTorch, computes what the models compute, and refuses what it does not know.
#include "io/export_torch.h"

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/subprocess.h"
#include "bridle/error.h"
#include "bridle/model_folder.h"
#include "bridle/safetensors.h"
#include "export_support.h"
#include "file_support.h"
#include "support.h"

namespace bridle {
namespace {

// Loads every folder that is named with one copy of the module, and prints the largest difference of its logits.
constexpr const char* kScript = R"(
import json, pathlib, sys
import torch
sys.path.insert(0, sys.argv[1])
import modeling_bridle
assert not any(name.startswith("bridle") for name in sys.modules)
torch.set_num_threads(1)
results = {}
for folder in map(pathlib.Path, sys.argv[2:]):
    examples = modeling_bridle.DTYPES.update({"I64": torch.int64}) or modeling_bridle.read_safetensors(folder / "examples.safetensors")
    model = modeling_bridle.load(folder)
    with torch.no_grad():
        size = max(1.0, examples["logits"].abs().max().item())
        single = (model(examples["inputs"]) - examples["logits"]).abs().max().item() / size
        wide = modeling_bridle.load(folder, torch.float64)
        inputs = examples["inputs"].double() if examples["inputs"].is_floating_point() else examples["inputs"]
        double = (wide(inputs) - examples["logits"]).abs().max().item() / size
    again = modeling_bridle.load(folder)
    again.load_state_dict(model.state_dict())
    results[folder.name] = [single, double]
print(json.dumps(results))
)";

bool has_torch(const std::filesystem::path& folder) {
  return run_program({"/usr/bin/python3", "-c", "import torch"}, folder).exit_code == 0;
}

at::Tensor inputs_for(const Model& model, int64_t count) {
  const ModelShape shape = model.shape();
  if (shape.input == InputKind::vectors) return test::normal({count, shape.size}, 3, at::kFloat);
  return test::normal({count, shape.longest}, 3).mul(1e4).to(at::kLong).remainder(shape.outputs);
}

TEST(ATorchFolder, ComputesTheLogitsOfEveryKindOfModelWithoutBridle) {
  const at::NoGradGuard no_gradients;
  const test::TemporaryFolder folder;
  if (!has_torch(folder))
    GTEST_SKIP() << "PYTORCH IS MISSING (python3-torch): the exported module was not run";
  write_torch_module(folder);
  write_file(folder / "compare.py", kScript);
  std::vector<std::string> command{"/usr/bin/python3", "-B", (folder / "compare.py").string(),
                                   std::filesystem::path(folder).string()};
  auto models = test::exported_mlps();
  for (const test::NamedModel& own : test::exported_transformers()) models.push_back(own);
  for (const test::NamedModel& own : test::torch_only_transformers()) models.push_back(own);
  for (const test::NamedModel& own : models) {
    const auto model = test::trained_like(own.options);
    const std::filesystem::path place = folder / own.name;
    make_folder(place);
    write_model(*model, place);
    Pass pass{.dtype = at::kDouble};
    const at::Tensor inputs = inputs_for(*model, 20);
    write_safetensors(
        place / "examples.safetensors",
        {.metadata = {}, .tensors = {{"inputs", inputs}, {"logits", model->forward(inputs, pass)}}});
    command.push_back(place.string());
  }
  const ProgramResult seen = run_program(command, folder);
  ASSERT_EQ(seen.exit_code, 0) << seen.errors;
  const auto results = nlohmann::json::parse(seen.output);
  ASSERT_EQ(results.size(), models.size());
  for (const auto& [name, off] : results.items()) {
    EXPECT_LE(off.at(0).get<double>(), 1e-5) << name;
    EXPECT_LE(off.at(1).get<double>(), 1e-11) << name;
  }
}

TEST(ATorchFolder, IsRefusedWhereItsConfigurationIsNotKnown) {
  const test::TemporaryFolder folder;
  if (!has_torch(folder))
    GTEST_SKIP() << "PYTORCH IS MISSING (python3-torch): the exported module was not run";
  write_torch_module(folder);
  write_model(*test::trained_like(MlpOptions{.layer_sizes = {4, 3}}), folder);
  const std::string config = read_file(folder / "config.json");
  const auto load = [&](const std::string& text) {
    write_file(folder / "config.json", text);
    return run_program({"/usr/bin/python3", "-B", "-c", "import modeling_bridle; modeling_bridle.load('.')"},
                       folder);
  };
  EXPECT_EQ(load(config).exit_code, 0);
  auto json = nlohmann::json::parse(config);
  json["new_option"] = true;
  EXPECT_NE(load(json.dump()).errors.find("new_option is not known"), std::string::npos);
  json.erase("new_option");
  json["model_type"] = "gpt2";
  EXPECT_NE(load(json.dump()).errors.find("model_type must be one of"), std::string::npos);
  EXPECT_ERROR(write_torch_module(folder / "missing" / "folder"), InputError, "missing");
}

}  // namespace
}  // namespace bridle
