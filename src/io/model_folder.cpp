#include "io/model_folder.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "base/json_text.h"
#include "base/nearest.h"
#include "bridle/error.h"
#include "bridle/safetensors.h"
#include "io/safetensors_reader.h"
#include "nn/model_options.h"

namespace bridle {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kTransformerType = "bridle";
constexpr const char* kMlpType = "bridle_mlp";

// What config.json may say besides: facts for other tools, which the model does not depend on.
const std::set<std::string> kForeignTexts{"torch_dtype", "transformers_version", "bridle_version"};
constexpr const char* kForeignList = "architectures";

// Stores a JSON value; false where it is of another type.
struct FromJson {
  const Json& value;
  bool operator()(bool* out) const { return value.is_boolean() && take(out); }
  bool operator()(int64_t* out) const { return value.is_number_integer() && take(out); }
  bool operator()(uint64_t* out) const { return value.is_number_unsigned() && take(out); }
  bool operator()(double* out) const { return value.is_number() && take(out); }
  bool operator()(std::string* out) const { return value.is_string() && take(out); }
  bool operator()(const Choice& out) const {
    if (value.is_boolean()) return out.choose(value.get<bool>());
    return value.is_string() && out.choose(std::string_view(value.get_ref<const std::string&>()));
  }
  bool operator()(const ChoiceList& out) const {
    return value.is_array() &&
           std::all_of(value.begin(), value.end(), [](const Json& e) { return e.is_string(); }) &&
           out.choose(value.get<std::vector<std::string>>());
  }
  bool operator()(std::vector<int64_t>* out) const {
    return value.is_array() &&
           std::all_of(value.begin(), value.end(), [](const Json& e) { return e.is_number_integer(); }) &&
           take(out);
  }
  template <class T>
  bool take(T* out) const {
    *out = value.get<T>();
    return true;
  }
};

const char* type_of(const ModelOptions& options) {
  struct Type {
    const char* operator()(const MlpOptions&) const { return kMlpType; }
    const char* operator()(const TransformerOptions&) const { return kTransformerType; }
  };
  return std::visit(Type{}, options);
}

[[noreturn]] void refuse(const std::filesystem::path& path, const std::string& what) {
  throw InputError("model", fmt::format("{}: {}", path.string(), what));
}

// True for a key that the model does not depend on. Throws where its value is of another type than other tools write.
bool is_foreign(const std::string& key, const Json& value, const std::filesystem::path& path) {
  const bool text = kForeignTexts.contains(key);
  if (!text && key != kForeignList) return key == "model_type";
  const bool texts = value.is_array() &&
                     std::all_of(value.begin(), value.end(), [](const Json& e) { return e.is_string(); });
  if (text ? !value.is_string() : !texts)
    refuse(path, fmt::format("{} = {} is of the wrong type", key, shown(value)));
  return true;
}

std::string suggestion(const std::string& word, const std::vector<std::string>& known) {
  const std::string meant = known.empty() ? "" : nearest_word(word, known);
  return meant.empty() || meant == word ? "" : "; did you mean '" + meant + "'?";
}

InputError no_weight(const std::string& origin, const std::string& name, const std::vector<Param>& params) {
  std::vector<std::string> known;
  for (const Param& param : params) known.push_back(param.name);
  return {"model",
          fmt::format("{}: the model has no weight {}{}", origin, in_quotes(name), suggestion(name, known))};
}

InputError missing_weight(const std::string& origin, const std::string& name) {
  return {"model", fmt::format("{}: {} is missing", origin, name)};
}

InputError other_shape(const std::string& origin, const std::string& name, at::IntArrayRef is,
                       at::IntArrayRef asked) {
  return {"model", fmt::format("{}: {} has shape [{}] and the model's configuration asks for [{}]", origin,
                               name, fmt::join(is, ", "), fmt::join(asked, ", "))};
}

at::ScalarType common_dtype(const std::vector<SafetensorsEntry>& entries, const std::filesystem::path& path) {
  if (entries.empty()) refuse(path, "it holds no weights");
  const at::ScalarType dtype = entries.front().dtype;
  for (const SafetensorsEntry& entry : entries)
    if (entry.dtype != dtype)
      refuse(path, fmt::format("{} is of another type than the weights before it", in_quotes(entry.name)));
  if (!at::isFloatingType(dtype)) refuse(path, "its weights are not of a floating-point type");
  return dtype;
}

// The model that the configuration asks for, with a tensor for each entry, in that order, whose values are to be read.
std::unique_ptr<Model> empty_model(const ModelOptions& options, const std::vector<SafetensorsEntry>& entries,
                                   const std::filesystem::path& path, std::vector<at::Tensor>& tensors) {
  const at::ScalarType dtype = common_dtype(entries, path);
  std::unordered_map<std::string_view, size_t> places;
  for (size_t i = 0; i < entries.size(); ++i) places[entries[i].name] = i;
  tensors.assign(entries.size(), {});
  const auto give = [&](const std::string& name, at::IntArrayRef shape) {
    const auto place = places.find(name);
    if (place == places.end()) throw missing_weight(path.string(), name);
    const SafetensorsEntry& entry = entries[place->second];
    if (shape != entry.shape) throw other_shape(path.string(), name, entry.shape, shape);
    return tensors[place->second] = at::empty(shape, dtype);
  };
  auto model = make_model_from(give, options);
  for (size_t i = 0; i < entries.size(); ++i)
    if (!tensors[i].defined()) throw no_weight(path.string(), entries[i].name, model->params());
  return model;
}

}  // namespace

nlohmann::ordered_json config_of(ModelOptions options) {
  Json config{{"model_type", type_of(options)}};
  for (const Setting& setting : model_settings(options)) config[setting.key] = json_of(setting);
  return config;
}

std::string write_weights(const Model& model, const std::filesystem::path& folder,
                          const std::map<std::string, std::string>& metadata) {
  SafetensorsFile file{.metadata = metadata, .tensors = {}};
  file.metadata["format"] = "pt";  // what Hugging Face's tools look for
  for (const Param& param : model.params()) file.tensors.emplace_back(param.name, param.tensor.detach());
  return write_safetensors(folder / "model.safetensors", file);
}

ModelIdentity write_model(const Model& model, const std::filesystem::path& folder,
                          const std::map<std::string, std::string>& metadata) {
  const std::optional<ModelOptions> options = model.options();
  if (!options) throw InputError("model", "no options describe this model, so it has no config.json");
  const std::string config = config_of(*options).dump(2) + "\n";
  write_file(folder / "config.json", config);
  return {.sha256 = write_weights(model, folder, metadata), .config = config};
}

ModelOptions options_from(const nlohmann::ordered_json& config, const std::filesystem::path& path) {
  if (!config.is_object()) refuse(path, "it is not a JSON object");
  ModelOptions options;
  const auto stated = config.find("model_type");
  const Json type = stated == config.end() ? Json() : *stated;
  if (type != kTransformerType && type != kMlpType)
    refuse(path, fmt::format("model_type is {}; Bridle reads \"{}\" and \"{}\"", shown(type),
                             kTransformerType, kMlpType));
  if (type == kMlpType)
    options = MlpOptions{};
  else
    options = TransformerOptions{};
  const Settings settings = model_settings(options);
  std::vector<std::string> known;
  for (const Setting& setting : settings) known.push_back(setting.key);
  for (const auto& [key, value] : config.items()) {
    if (is_foreign(key, value, path)) continue;
    const auto setting =
        std::find_if(settings.begin(), settings.end(), [&k = key](const Setting& s) { return s.key == k; });
    if (setting == settings.end())
      refuse(path, fmt::format("there is no key {}{}", in_quotes(key), suggestion(key, known)));
    if (std::visit(FromJson{value}, setting->place)) continue;
    if (const auto* choice = std::get_if<Choice>(&setting->place))
      refuse(path, fmt::format("{} must be one of {}, got {}", key, choice->words(), shown(value)));
    refuse(path, fmt::format("{} = {} is of the wrong type", key, shown(value)));
  }
  return resolved(options);
}

void load_weights_(const Model& model, const std::vector<std::pair<std::string, at::Tensor>>& tensors,
                   const std::string& origin) {
  const at::NoGradGuard no_gradients;
  std::unordered_map<std::string_view, const at::Tensor*> given;
  std::unordered_set<std::string_view> known;
  for (const Param& param : model.params()) known.insert(param.name);
  for (const auto& [name, tensor] : tensors) {
    if (!known.contains(name)) throw no_weight(origin, name, model.params());
    given[name] = &tensor;
  }
  for (const Param& param : model.params()) {
    const auto found = given.find(param.name);
    if (found == given.end()) throw missing_weight(origin, param.name);
    const at::Tensor& tensor = *found->second;
    if (tensor.sizes() != param.tensor.sizes())
      throw other_shape(origin, param.name, tensor.sizes(), param.tensor.sizes());
    if (!tensor.is_floating_point())
      throw InputError("model", fmt::format("{}: {} is not of a floating-point type", origin, param.name));
  }
  for (const Param& param : model.params()) param.tensor.copy_(*given.at(param.name));
}

ModelFiles::ModelFiles(const std::filesystem::path& folder)
    : config_path_(folder / "config.json"),
      config_text_(read_file(config_path_, kLargestJson)),
      config_(parse_json(config_text_, "model", config_path_.string())),
      weights_(folder / "model.safetensors") {}

StoredModel ModelFiles::read() {
  const ModelOptions options = options_from(config_, config_path_);
  SafetensorsReader reader(weights_, kLargestJson);
  std::vector<at::Tensor> tensors;
  StoredModel result{.model = empty_model(options, reader.entries(), weights_.path(), tensors),
                     .identity = {}};
  result.identity = {.sha256 = reader.read_into(tensors), .config = config_text_};
  return result;
}

StoredModel read_model(const std::filesystem::path& folder, at::Device device) {
  StoredModel stored = ModelFiles(folder).read();
  if (!device.is_cpu()) stored.model = copy_to(*stored.model, device);
  return stored;
}

}  // namespace bridle
