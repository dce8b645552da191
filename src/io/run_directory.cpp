#include "io/run_directory.h"

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "base/files.h"
#include "base/json_text.h"
#include "base/nearest.h"
#include "bridle/error.h"
#include "bridle/safetensors.h"
#include "nn/model_options.h"

namespace bridle {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kTransformerType = "bridle";
constexpr const char* kMlpType = "bridle_mlp";

// What config.json may say besides: facts for other tools, which the model does not depend on.
const std::set<std::string> kIgnored{"model_type", "architectures", "torch_dtype", "transformers_version",
                                     "bridle_version"};

struct ToJson {
  Json operator()(const std::vector<int64_t>* value) const { return *value; }
  template <class T>
  Json operator()(const T* value) const {
    return *value;
  }
};

// Stores a JSON value; false where it is of another type.
struct FromJson {
  const Json& value;
  bool operator()(bool* out) const { return value.is_boolean() && take(out); }
  bool operator()(int64_t* out) const { return value.is_number_integer() && take(out); }
  bool operator()(uint64_t* out) const { return value.is_number_unsigned() && take(out); }
  bool operator()(double* out) const { return value.is_number() && take(out); }
  bool operator()(std::string* out) const { return value.is_string() && take(out); }
  bool operator()(std::vector<int64_t>* out) const {
    for (const Json& entry : value) {
      if (!entry.is_number_integer()) return false;
    }
    return value.is_array() && take(out);
  }
  template <class T>
  bool take(T* out) const {
    *out = value.get<T>();
    return true;
  }
};

// The keys that belong to a model of this kind.
bool belongs(const std::string& key, const std::string& kind) {
  static const std::set<std::string> mlp{"layer_sizes", "mlp_activation", "input_bound"};
  static const std::set<std::string> both{"final_scale", "initialization"};
  if (key == "kind" || key == "hidden_sizes") return false;
  return both.contains(key) || mlp.contains(key) == (kind == "mlp");
}

[[noreturn]] void refuse(const std::filesystem::path& path, const std::string& what) {
  throw InputError("model", fmt::format("{}: {}", path.string(), what));
}

std::string shape_text(const at::Tensor& tensor) {
  return fmt::format("[{}]", fmt::join(tensor.sizes(), ", "));
}

std::vector<std::string> names_of(const std::vector<Param>& params) {
  std::vector<std::string> names;
  for (const Param& param : params) names.push_back(param.name);
  return names;
}

}  // namespace

nlohmann::ordered_json config_of(ModelOptions options) {
  Json config{{"model_type", options.kind == "mlp" ? kMlpType : kTransformerType}};
  for (const Setting& setting : model_settings(options)) {
    if (belongs(setting.key, options.kind)) config[setting.key] = std::visit(ToJson{}, setting.place);
  }
  return config;
}

void write_model(const Model& model, const std::filesystem::path& folder,
                 const std::map<std::string, std::string>& metadata) {
  const Json config = config_of(model.options());
  SafetensorsFile file{.metadata = metadata, .tensors = {}};
  file.metadata["format"] = "pt";  // what Hugging Face's tools look for
  for (const Param& param : model.params()) file.tensors.emplace_back(param.name, param.tensor.detach());
  write_file(folder / "config.json", config.dump(2) + "\n");
  write_safetensors(folder / "model.safetensors", file);
}

ModelOptions read_model_options(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / "config.json";
  return options_from(parse_json(read_file(path), "model", path.string()), path);
}

ModelOptions options_from(const nlohmann::ordered_json& config, const std::filesystem::path& path) {
  if (!config.is_object()) refuse(path, "it is not a JSON object");
  ModelOptions options;
  const Json type = config.value("model_type", Json());
  if (type != kTransformerType && type != kMlpType)
    refuse(path, fmt::format("model_type is {}; Bridle reads \"{}\" and \"{}\"", type.dump(),
                             kTransformerType, kMlpType));
  options.kind = type == kMlpType ? "mlp" : "transformer";
  const Settings settings = model_settings(options);
  std::vector<std::string> known;
  for (const Setting& setting : settings) known.push_back(setting.key);
  for (const auto& [key, value] : config.items()) {
    if (kIgnored.contains(key)) continue;
    const auto setting =
        std::find_if(settings.begin(), settings.end(), [&k = key](const Setting& s) { return s.key == k; });
    if (setting == settings.end() || !belongs(key, options.kind)) {
      const std::string meant = nearest_word(key, known);
      refuse(path, fmt::format("there is no key '{}'{}", key,
                               meant.empty() || meant == key ? "" : "; did you mean '" + meant + "'?"));
    }
    if (!std::visit(FromJson{value}, setting->place))
      refuse(path, fmt::format("{} = {} is of the wrong type", key, value.dump()));
  }
  return resolved(options);
}

void load_weights_(const Model& model, const std::vector<std::pair<std::string, at::Tensor>>& tensors,
                   const std::string& origin) {
  const at::NoGradGuard no_gradients;
  const auto refuse_weight = [&](const std::string& what) {
    return InputError("model", fmt::format("{}: {}", origin, what));
  };
  std::set<std::string> given;
  for (const auto& [name, tensor] : tensors) {
    const auto& params = model.params();
    const auto param =
        std::find_if(params.begin(), params.end(), [&n = name](const Param& p) { return p.name == n; });
    if (param == params.end()) {
      const std::string meant = nearest_word(name, names_of(params));
      throw refuse_weight(fmt::format("the model has no weight '{}'{}", name,
                                      meant.empty() ? "" : "; did you mean '" + meant + "'?"));
    }
    if (tensor.sizes() != param->tensor.sizes())
      throw refuse_weight(fmt::format("{} has shape {} and the model's configuration asks for {}", name,
                                      shape_text(tensor), shape_text(param->tensor)));
    if (!tensor.is_floating_point())
      throw refuse_weight(fmt::format("{} is not of a floating-point type", name));
    given.insert(name);
  }
  for (const Param& param : model.params()) {
    if (!given.contains(param.name)) throw refuse_weight(fmt::format("{} is missing", param.name));
  }
  for (const Param& param : model.params()) {
    const auto found = std::find_if(tensors.begin(), tensors.end(),
                                    [&](const auto& entry) { return entry.first == param.name; });
    param.tensor.copy_(found->second);
  }
}

std::unique_ptr<Model> read_model(const std::filesystem::path& folder) {
  return read_model(folder, read_model_options(folder));
}

std::unique_ptr<Model> read_model(const std::filesystem::path& folder, const ModelOptions& options) {
  const std::filesystem::path path = folder / "model.safetensors";
  const SafetensorsFile file = read_safetensors(path);
  if (file.tensors.empty()) refuse(path, "it holds no weights");
  const at::ScalarType dtype = file.tensors.front().second.scalar_type();
  for (const auto& [name, tensor] : file.tensors) {
    if (tensor.scalar_type() != dtype)
      refuse(path, fmt::format("{} is of another type than the weights before it", name));
  }
  auto model = make_model(options, std::nullopt, dtype);
  load_weights_(*model, file.tensors, path.string());
  return model;
}

}  // namespace bridle
