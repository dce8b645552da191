// Foreign models: what their configuration says in Bridle's options, and where each weight comes from.
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/files.h"
#include "base/json_text.h"
#include "base/words.h"
#include "bridle/error.h"
#include "bridle/foreign.h"
#include "bridle/safetensors.h"
#include "io/certificate_file.h"
#include "io/model_folder.h"
#include "io/safetensors_header.h"

namespace bridle {

const char* word(RopeLayout layout) {
  switch (layout) {
    case RopeLayout::half:
      return "half";
    case RopeLayout::interleaved:
      return "interleaved";
  }
  return nullptr;
}

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

[[noreturn]] void refuse(const std::string& what) { throw InputError("import", what); }

// ---- The file or folder

struct Files {
  fs::path origin;
  std::optional<Json> config;
  std::map<std::string, at::Tensor> tensors;
};

void add_tensors(Files& files, const fs::path& path) {
  for (auto& [name, tensor] : read_safetensors(path).tensors)
    if (!files.tensors.emplace(name, tensor).second)
      refuse(fmt::format("{}: {} is in another file too", path.string(), in_quotes(name)));
}

void add_shards(Files& files, const fs::path& folder, const fs::path& index) {
  const Json json = Json::parse(read_file(index, uint64_t{1} << 28U), nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("weight_map") || !json["weight_map"].is_object())
    refuse(fmt::format("{} must be JSON with a weight_map", index.string()));
  std::set<std::string> shards;
  for (const auto& [name, file] : json["weight_map"].items()) {
    if (!file.is_string() || fs::path(file.get<std::string>()).filename() != file.get<std::string>())
      refuse(fmt::format("{}: {} must name a file of the folder", index.string(), in_quotes(name)));
    shards.insert(file.get<std::string>());
  }
  for (const std::string& shard : shards) add_tensors(files, folder / shard);
}

Files open_files(const fs::path& path) {
  Files files{.origin = path, .config = {}, .tensors = {}};
  const bool folder = fs::is_directory(path);
  const fs::path home = folder ? path : path.parent_path();
  if (!folder && !fs::exists(path))
    refuse(fmt::format("{} must be a folder or a safetensors file, and is not there", path.string()));
  if (fs::exists(home / "config.json"))
    files.config =
        parse_json(read_file(home / "config.json", kLargestJson), "import", (home / "config.json").string());
  if (!folder)
    add_tensors(files, path);
  else if (fs::exists(path / "model.safetensors"))
    add_tensors(files, path / "model.safetensors");
  else if (fs::exists(path / "model.safetensors.index.json"))
    add_shards(files, path, path / "model.safetensors.index.json");
  else
    refuse(fmt::format(
        "{} must hold model.safetensors, and does not; pickles are not read: save the state dict as "
        "safetensors",
        path.string()));
  if (files.tensors.empty()) refuse(fmt::format("{} holds no tensors", path.string()));
  return files;
}

// ---- Weights by their foreign names, each used once; in one type

class Tensors {
 public:
  explicit Tensors(Files& files) : all_(std::move(files.tensors)), origin_(files.origin.string()) {
    std::optional<at::ScalarType> common;
    for (const auto& [name, tensor] : all_) {
      if (!tensor.is_floating_point()) continue;  // masks
      if (tensor.scalar_type() == at::kDouble)
        refuse(fmt::format(
            "{}: {} is float64, and certificates are about float32, bfloat16 or float16; save it as "
            "float32 first",
            origin_, in_quotes(name)));
      const bool same = !common || *common == tensor.scalar_type();
      common = same ? tensor.scalar_type() : at::kFloat;
    }
    dtype_ = common.value_or(at::kFloat);
  }

  bool has(const std::string& name) const { return all_.contains(name); }
  at::ScalarType dtype() const { return dtype_; }
  const std::map<std::string, at::Tensor>& all() const { return all_; }

  at::Tensor take(const std::string& name) {
    const auto found = all_.find(name);
    if (found == all_.end()) refuse(fmt::format("{}: {} is missing", origin_, in_quotes(name)));
    used_.insert(name);
    return found->second.to(dtype_);
  }
  at::Tensor take(const std::string& name, at::IntArrayRef shape) {
    const at::Tensor tensor = take(name);
    if (tensor.sizes() != shape)
      refuse(fmt::format("{}: {} has shape [{}] and the configuration asks for [{}]", origin_,
                         in_quotes(name), fmt::join(tensor.sizes(), ", "), fmt::join(shape, ", ")));
    return tensor;
  }
  at::Tensor zeros(int64_t size) const { return at::zeros({size}, dtype_); }
  void ignore(const std::string& name) {
    used_.insert(name);
    ignored_.push_back(name);
  }

  std::vector<std::string> finish() const {
    for (const auto& [name, tensor] : all_)
      if (!used_.contains(name))
        refuse(fmt::format("{}: {} [{}] is no part of a model that Bridle knows", origin_, in_quotes(name),
                           fmt::join(tensor.sizes(), ", ")));
    return ignored_;
  }

 private:
  std::map<std::string, at::Tensor> all_;
  std::string origin_;
  at::ScalarType dtype_ = at::kFloat;
  std::set<std::string> used_;
  std::vector<std::string> ignored_;
};

using Given = std::map<std::string, at::Tensor>;

std::unique_ptr<Model> model_of(const ModelOptions& options, const Given& given) {
  return make_model_from(
      [&](const std::string& name, at::IntArrayRef shape) {
        const auto found = given.find(name);
        if (found == given.end() || found->second.sizes() != shape)
          refuse(fmt::format("{} must have shape [{}] here, and {}", name, fmt::join(shape, ", "),
                             found == given.end()
                                 ? "is missing"
                                 : fmt::format("has [{}]", fmt::join(found->second.sizes(), ", "))));
        return found->second.contiguous().clone();
      },
      resolved(options));
}

// ---- Configurations

class Config {
 public:
  explicit Config(const Json& json) : json_(json) {}

  bool has(const char* key) const { return json_.contains(key) && !json_[key].is_null(); }
  int64_t integer(const char* key) const {
    if (!has(key) || !json_[key].is_number_integer()) wrong(key, "an integer");
    return json_[key].get<int64_t>();
  }
  int64_t integer(const char* key, int64_t otherwise) const { return has(key) ? integer(key) : otherwise; }
  double real(const char* key, double otherwise) const {
    if (!has(key)) return otherwise;
    if (!json_[key].is_number()) wrong(key, "a number");
    return json_[key].get<double>();
  }
  bool flag(const char* key, bool otherwise) const {
    if (!has(key)) return otherwise;
    if (!json_[key].is_boolean()) wrong(key, "true or false");
    return json_[key].get<bool>();
  }
  std::string text(const char* key, const std::string& otherwise) const {
    if (!has(key)) return otherwise;
    if (!json_[key].is_string()) wrong(key, "a text");
    return json_[key].get<std::string>();
  }
  const Json& at(const char* key) const { return json_[key]; }

  // Throws unless the key has this value, or is not there.
  void need(const char* key, const Json& value) const {
    if (has(key) && json_[key] != value)
      refuse(fmt::format("config.json: {} must be {}, got {}: Bridle has no such part", key, value.dump(),
                         shown(json_[key])));
  }

 private:
  [[noreturn]] void wrong(const char* key, const char* what) const {
    refuse(fmt::format("config.json: {} must be {}, got {}", key, what,
                       json_.contains(key) ? shown(json_[key]) : "nothing"));
  }
  const Json& json_;
};

ActivationKind activation_named(const std::string& name) {
  static const std::map<std::string, ActivationKind> kNames{
      {"gelu", ActivationKind::gelu},           {"gelu_new", ActivationKind::gelu_tanh},
      {"gelu_fast", ActivationKind::gelu_tanh}, {"gelu_pytorch_tanh", ActivationKind::gelu_tanh},
      {"relu", ActivationKind::relu},           {"relu2", ActivationKind::relu_squared},
      {"tanh", ActivationKind::tanh},           {"silu", ActivationKind::silu},
      {"swish", ActivationKind::silu}};
  const auto found = kNames.find(name);
  if (found != kNames.end()) return found->second;
  std::string known;
  for (const auto& [own, kind] : kNames) known += (known.empty() ? "" : ", ") + own;
  refuse(fmt::format("config.json: the activation must be one of {}, got {}", known, in_quotes(name)));
}

// What GPT-2 and Llama have in common, in Bridle's words: x + f(norm(x)), q·k/√d_h.
TransformerOptions common_options(int64_t hidden_size, int64_t heads) {
  if (heads < 1 || hidden_size < 1 || hidden_size % heads != 0)
    refuse(
        fmt::format("config.json: the hidden size must be a multiple of the number of heads, got {} and {}",
                    hidden_size, heads));
  TransformerOptions o{.hidden_size = hidden_size, .num_attention_heads = heads};
  o.activation_divisor = 1.0;
  o.softmax_scale = std::sqrt(static_cast<double>(hidden_size / heads));
  o.attention_output_scale = 1.0;
  o.residual = ResidualKind::plain;
  o.initialization = Initialization::normal;
  return o;
}

// ---- GPT-2: Conv1D keeps its weights [in, out]

TransformerOptions gpt2_options(const Config& config) {
  config.need("scale_attn_by_inverse_layer_idx", false);
  config.need("add_cross_attention", false);
  TransformerOptions o = common_options(config.integer("n_embd"), config.integer("n_head"));
  o.vocab_size = config.integer("vocab_size");
  o.num_hidden_layers = config.integer("n_layer");
  o.intermediate_size = config.integer("n_inner", 4 * o.hidden_size);
  o.max_position_embeddings = config.integer("n_positions", config.integer("n_ctx", 1024));
  o.positions = PositionKind::learned;
  o.activation = activation_named(config.text("activation_function", "gelu_new"));
  if (!config.flag("scale_attn_weights", true)) o.softmax_scale = static_cast<double>(o.head_size());
  o.norm = NormLayer::layer_norm;
  o.norm_epsilon = config.real("layer_norm_epsilon", 1e-5);
  o.bias = true;
  o.tie_embeddings = config.flag("tie_word_embeddings", true);
  return o;
}

void take_affine(Given& given, Tensors& tensors, const std::string& to, const std::string& from) {
  for (const char* part : {".weight", ".bias"}) given[to + part] = tensors.take(from + part);
}

void take_conv1d(Given& given, Tensors& tensors, const std::string& to, const std::string& from, int64_t in,
                 int64_t out) {
  given[to + ".weight"] = tensors.take(from + ".weight", {in, out}).t();
  given[to + ".bias"] = tensors.take(from + ".bias", {out});
}

ForeignModel read_gpt2(const Config& config, Tensors& tensors) {
  TransformerOptions o = gpt2_options(config);
  const int64_t d = o.hidden_size;
  const std::string prefix = tensors.has("transformer.wte.weight") ? "transformer." : "";
  Given given;
  given["model.embed_tokens.weight"] = tensors.take(prefix + "wte.weight", {o.vocab_size, d});
  given["model.embed_positions.weight"] = tensors.take(prefix + "wpe.weight", {o.max_position_embeddings, d});
  for (int64_t i = 0; i < o.num_hidden_layers; ++i) {
    const std::string from = fmt::format("{}h.{}.", prefix, i), to = fmt::format("model.layers.{}.", i);
    take_affine(given, tensors, to + "input_layernorm", from + "ln_1");
    take_affine(given, tensors, to + "post_attention_layernorm", from + "ln_2");
    const at::Tensor qkv = tensors.take(from + "attn.c_attn.weight", {d, 3 * d}).t();
    const at::Tensor bias = tensors.take(from + "attn.c_attn.bias", {3 * d});
    int64_t part = 0;
    for (const char* name : {"q", "k", "v"}) {
      given[fmt::format("{}self_attn.{}_proj.weight", to, name)] = qkv.narrow(0, part * d, d);
      given[fmt::format("{}self_attn.{}_proj.bias", to, name)] = bias.narrow(0, part++ * d, d);
    }
    take_conv1d(given, tensors, to + "self_attn.o_proj", from + "attn.c_proj", d, d);
    take_conv1d(given, tensors, to + "mlp.up_proj", from + "mlp.c_fc", d, o.intermediate_size);
    take_conv1d(given, tensors, to + "mlp.down_proj", from + "mlp.c_proj", o.intermediate_size, d);
    for (const char* mask : {"attn.bias", "attn.masked_bias"})
      if (tensors.has(from + mask)) tensors.ignore(from + mask);
  }
  take_affine(given, tensors, "model.norm", prefix + "ln_f");
  if (tensors.has("lm_head.weight")) {
    given["lm_head.weight"] = tensors.take("lm_head.weight", {o.vocab_size, d});
    o.tie_embeddings = given["lm_head.weight"].equal(given["model.embed_tokens.weight"]);
  } else if (!o.tie_embeddings) {
    refuse("'lm_head.weight' is missing, and tie_word_embeddings is false");
  }
  ForeignModel result{.kind = "gpt2", .model = model_of(o, given)};
  result.ignored = tensors.finish();
  return result;
}

// ---- Llama: the names are Bridle's

void refuse_scaled_rope(const Config& config, TransformerOptions& o) {
  o.rope_theta = config.real("rope_theta", 10000.0);
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    if (!config.has(key)) continue;
    const Json& rope = config.at(key);
    if (!rope.is_object()) refuse(fmt::format("config.json: {} must be an object", key));
    for (const char* name : {"rope_type", "type"})
      if (rope.contains(name) && rope[name] != "default")
        refuse(
            fmt::format("config.json: {}.{} must be \"default\", got {}: Bridle does not stretch positions",
                        key, name, shown(rope[name])));
    if (rope.contains("rope_theta") && rope["rope_theta"].is_number())
      o.rope_theta = rope["rope_theta"].get<double>();
  }
  if (config.real("partial_rotary_factor", 1.0) != 1.0)
    refuse("config.json: partial_rotary_factor must be 1: Bridle turns whole heads");
}

TransformerOptions llama_options(const Config& config, const Tensors& tensors) {
  TransformerOptions o = common_options(config.integer("hidden_size"), config.integer("num_attention_heads"));
  if (config.integer("head_dim", o.head_size()) != o.head_size())
    refuse(fmt::format("config.json: head_dim must be hidden_size/num_attention_heads = {}, got {}",
                       o.head_size(), config.integer("head_dim")));
  config.need("pretraining_tp", 1);
  o.vocab_size = config.integer("vocab_size");
  o.num_hidden_layers = config.integer("num_hidden_layers");
  o.num_key_value_heads = config.integer("num_key_value_heads", o.num_attention_heads);
  o.intermediate_size = config.integer("intermediate_size");
  o.max_position_embeddings = config.integer("max_position_embeddings", 2048);
  o.positions = PositionKind::rope;
  refuse_scaled_rope(config, o);
  o.activation = activation_named(config.text("hidden_act", "silu"));
  o.gated = true;
  o.norm = NormLayer::rms_norm;
  o.norm_epsilon = config.real("rms_norm_eps", 1e-6);
  o.tie_embeddings = config.flag("tie_word_embeddings", false);
  const bool windows = config.flag("use_sliding_window", true) && config.has("sliding_window");
  if (windows && config.integer("sliding_window") < o.max_position_embeddings)
    o.attention_window = config.integer("sliding_window");
  for (const auto& [name, tensor] : tensors.all())
    if (name.ends_with("_proj.bias")) o.bias = true;
  return o;
}

// Rows 2i and 2i + 1 of every head become i and i + h/2: its pairs are then Bridle's.
at::Tensor half_split(const at::Tensor& weight, int64_t head_size) {
  const int64_t half = head_size / 2;
  const at::Tensor pair = at::arange(half, at::kLong).mul(2);
  const at::Tensor order = at::cat({pair, pair.add(1)});
  std::vector<int64_t> shape{-1, head_size};
  if (weight.dim() == 2) shape.push_back(weight.size(1));
  return weight.view(shape).index_select(1, order).reshape(weight.sizes());
}

ForeignModel read_llama(const Config& config, Tensors& tensors, RopeLayout rope) {
  TransformerOptions o = llama_options(config, tensors);
  ForeignModel result{.kind = "llama", .model = nullptr};
  if (o.tie_embeddings && tensors.has("lm_head.weight")) {
    if (tensors.take("lm_head.weight").equal(tensors.take("model.embed_tokens.weight")))
      tensors.ignore("lm_head.weight");
    else
      o.tie_embeddings = false;
  }
  Given given;
  const auto shapes = outline(resolved(o));
  for (const Param& param : shapes->params()) {
    const bool turns =
        rope == RopeLayout::interleaved && (param.role == Role::query || param.role == Role::key);
    const bool of_turned = rope == RopeLayout::interleaved && param.role == Role::bias &&
                           (param.name.ends_with("q_proj.bias") || param.name.ends_with("k_proj.bias"));
    if (param.role == Role::bias && !tensors.has(param.name)) {
      given[param.name] = tensors.zeros(param.tensor.numel());
      result.filled.push_back(param.name);
      continue;
    }
    const at::Tensor tensor = tensors.take(param.name, param.tensor.sizes());
    given[param.name] = turns || of_turned ? half_split(tensor, o.head_size()) : tensor;
  }
  for (const auto& [name, tensor] : tensors.all())
    if (name.ends_with(".rotary_emb.inv_freq")) tensors.ignore(name);
  result.model = model_of(o, given);
  result.ignored = tensors.finish();
  return result;
}

// ---- Linear layers in a row

// Names in the order of the numbers in them.
std::vector<std::string> natural_key(const std::string& name) {
  std::vector<std::string> parts;
  for (size_t i = 0; i < name.size();) {
    const bool digit = std::isdigit(static_cast<unsigned char>(name[i])) != 0;
    size_t end = i;
    while (end < name.size() && (std::isdigit(static_cast<unsigned char>(name[end])) != 0) == digit) ++end;
    const std::string part = name.substr(i, end - i);
    parts.push_back(digit ? std::string(12 - std::min<size_t>(12, part.size()), '0') + part : part);
    i = end;
  }
  return parts;
}

ForeignModel read_mlp(Tensors& tensors, const ForeignOptions& options) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : tensors.all()) {
    if (name.ends_with(".weight") && tensor.dim() == 2) {
      names.push_back(name.substr(0, name.size() - 7));
    } else if (!name.ends_with(".bias") || tensor.dim() != 1) {
      refuse(fmt::format(
          "{} [{}] is no weight or bias of a linear layer, and no config.json names another kind of model "
          "(gpt2, llama)",
          in_quotes(name), fmt::join(tensor.sizes(), ", ")));
    }
  }
  if (names.empty()) refuse("there is no linear layer: names must end with .weight and .bias");
  std::sort(names.begin(), names.end(),
            [](const std::string& a, const std::string& b) { return natural_key(a) < natural_key(b); });
  if (names.size() > 1 && !options.activation)
    refuse("a file of linear layers does not say what stands between them: name it with --activation");
  MlpOptions o{.activation = options.activation.value_or(ActivationKind::relu),
               .input_bound = options.input_bound};
  ForeignModel result{.kind = "mlp", .model = nullptr};
  for (const std::string& name : names) o.bias = o.bias || tensors.has(name + ".bias");
  Given given;
  for (size_t i = 0; i < names.size(); ++i) {
    const at::Tensor weight = tensors.take(names[i] + ".weight");
    if (i == 0) o.layer_sizes = {weight.size(1)};
    if (weight.size(1) != o.layer_sizes.back())
      refuse(fmt::format(
          "{} takes {} inputs, and the layer before it gives {}: the layers must follow each other in the "
          "order of their names, and they are {}",
          in_quotes(names[i]), weight.size(1), o.layer_sizes.back(), fmt::join(names, ", ")));
    o.layer_sizes.push_back(weight.size(0));
    const std::string to = fmt::format("model.layers.{}", i);
    given[to + ".weight"] = weight;
    if (!o.bias) continue;
    if (tensors.has(names[i] + ".bias")) {
      given[to + ".bias"] = tensors.take(names[i] + ".bias", {weight.size(0)});
    } else {
      given[to + ".bias"] = tensors.zeros(weight.size(0));
      result.filled.push_back(to + ".bias");
    }
  }
  result.model = model_of(o, given);
  result.ignored = tensors.finish();
  return result;
}

}  // namespace

ForeignModel read_foreign(const fs::path& path, const ForeignOptions& options) {
  Files files = open_files(path);
  Tensors tensors(files);
  const bool described = files.config && files.config->is_object() && files.config->contains("model_type");
  if (!described) {
    if (tensors.has("wte.weight") || tensors.has("transformer.wte.weight") ||
        tensors.has("model.embed_tokens.weight"))
      refuse(fmt::format("{} is a transformer, whose heads only its config.json says: put that beside it",
                         path.string()));
    return read_mlp(tensors, options);
  }
  const Config config(*files.config);
  const std::string type = config.text("model_type", "");
  if (type == "gpt2") return read_gpt2(config, tensors);
  if (type == "llama" || type == "mistral" || type == "qwen2")
    return read_llama(config, tensors, options.rope);
  if (type == "bridle" || type == "bridle_mlp")
    refuse(fmt::format("{} is a model of Bridle's already: bridle certify takes it as it is", path.string()));
  refuse(fmt::format(
      "config.json: model_type must be one of gpt2, llama, mistral, qwen2, got {}: its parts are not known",
      in_quotes(type)));
}

namespace {

// All files, or nothing.
void write_imported(const Model& model, const std::optional<CertifiedBound>& bound, const fs::path& out) {
  const fs::path place = fs::absolute(out / "").lexically_normal().parent_path();
  const fs::path fresh =
      place.parent_path() / fmt::format(".{}.{}.new", place.filename().string(), ::getpid());
  make_folder(fresh);
  try {
    const ModelIdentity written = write_model(
        model, fresh, bound ? certificate_metadata(*bound) : std::map<std::string, std::string>{});
    if (bound) write_certificate(fresh / "certificate.json", certificate_of(written, model, *bound));
    publish(fresh, place);
  } catch (const std::exception&) {
    std::error_code ignored;
    fs::remove_all(fresh, ignored);
    throw;
  }
}

}  // namespace

ImportResult import_model(const fs::path& path, const fs::path& out, const ForeignOptions& options) {
  if (fs::exists(out) && !(fs::is_directory(out) && fs::is_empty(out)))
    refuse(fmt::format("--out must be missing or empty, and {} is there already", out.string()));
  const ForeignModel foreign = read_foreign(path, options);
  ImportResult result{.kind = foreign.kind, .ignored = foreign.ignored, .filled = foreign.filled};
  for (const Param& param : foreign.model->params()) result.weights += param.tensor.numel();
  try {
    result.bound = certify(*foreign.model);
  } catch (const PromiseError& error) {
    result.no_bound = error.what();
  }
  write_imported(*foreign.model, result.bound, out);
  return result;
}

}  // namespace bridle
