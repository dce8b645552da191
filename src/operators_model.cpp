// Models and certificates as operators, for bridle.load, certify and check in Python. A model is its config.json and its
// weights in the order of its params; each call makes it anew around the weights that it is given, which costs no memory, so
// that a program may move, cast, replace and share them as it likes. The forward pass is the modules' own: LibTorch records
// its gradients.
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/library.h>

#include <cmath>
#include <filesystem>
#include <optional>

#include "base/files.h"
#include "base/json_text.h"
#include "base/libtorch.h"
#include "bridle/certificate_file.h"
#include "bridle/certify.h"
#include "bridle/run.h"
#include "io/model_folder.h"
#include "operators.h"

namespace bridle {
namespace {

namespace fs = std::filesystem;
using Described = std::tuple<std::string, std::vector<std::string>, std::vector<Tensor>>;

ModelOptions options_of(const std::string& config) {
  return options_from(parse_json(config, "model", "config"), "config");
}

// Its configuration with every key, names and weights.
Described described(const Model& model) {
  Described result;
  auto& [config, names, weights] = result;
  config = config_of(model.options().value()).dump(2);
  for (const Param& param : model.params()) {
    names.push_back(param.name);
    weights.push_back(param.tensor.detach());
  }
  return result;
}

// What the model does to a given weight's `requires_grad` must not reach the caller's tensor.
std::unique_ptr<Model> model_with(const std::string& config, at::TensorList weights) {
  size_t place = 0;
  const auto give = [&](const std::string& name, at::IntArrayRef shape) {
    if (place == weights.size())
      throw InputError("model", fmt::format("{} is missing: only {} weights were given", name, place));
    const Tensor& given = weights[place++];
    if (given.sizes() != shape)
      throw InputError("model", fmt::format("{} must have shape [{}], got [{}]", name, fmt::join(shape, ", "),
                                            fmt::join(given.sizes(), ", ")));
    if (!given.is_floating_point())
      throw InputError("model", fmt::format("{} must be of a floating-point type", name));
    return given.requires_grad() ? given : given.detach();
  };
  auto model = make_model_from(give, options_of(config));
  if (place != weights.size())
    throw InputError("model", fmt::format("the model has {} weights, got {}", place, weights.size()));
  for (size_t i = 0; i < weights.size(); ++i)
    if (!weights[i].requires_grad()) Tensor(model->params()[i].tensor).requires_grad_(false);
  return model;
}

Described make_model_op(const std::string& config, int64_t seed) {
  return described(*make_model(options_of(config), static_cast<uint64_t>(seed)));
}

// Also how far a run's attention windows had grown when the model was saved: 1 but for a run that has not ended.
std::tuple<std::string, std::vector<std::string>, std::vector<Tensor>, double> read_model_op(
    const std::string& folder) {
  if (!fs::is_directory(folder))
    throw InputError(
        "load", fmt::format("{} is not a folder; name one with config.json and model.safetensors", folder));
  StoredModel stored = read_model(folder);
  auto [config, names, weights] = described(*stored.model);
  const bool is_run = fs::exists(fs::path(folder) / "config.toml");
  const double share = is_run ? open_run(folder, std::move(stored.model)).window_share : 1.0;
  return {config, names, weights, share};
}

// Returns the SHA-256 of model.safetensors.
std::string write_model_op(const std::string& folder, const std::string& config, at::TensorList weights) {
  if (!fs::is_directory(folder))
    throw InputError("save", fmt::format("{} must be a folder that exists", folder));
  return write_model(*model_with(config, weights), folder).sha256;
}

Tensor model_forward_op(const std::string& config, at::TensorList weights, const Tensor& inputs,
                        at::ScalarType dtype, bool training, int64_t dropout_seed, double window_share) {
  const auto model = model_with(config, weights);
  const ModelShape shape = model->shape();
  const bool tokens = shape.input == InputKind::tokens;
  const bool fits = tokens ? inputs.dim() == 2 && inputs.scalar_type() == at::kLong
                           : inputs.dim() == 2 && inputs.size(1) == shape.size && inputs.is_floating_point();
  if (!fits)
    throw InputError(
        "forward", fmt::format("inputs must be {}, got {} [{}]",
                               tokens ? "token ids [B, T] in int64"
                                      : fmt::format("vectors [B, {}] of floating-point numbers", shape.size),
                               c10::toString(inputs.scalar_type()), fmt::join(inputs.sizes(), ", ")));
  Pass pass{.dtype = dtype,
            .training = training,
            .window_share = window_share,
            .dropout = {.seed = static_cast<uint64_t>(dropout_seed), .stream = Stream::dropout, .step = 0}};
  return model->forward(inputs, pass);
}

// The largest stretch that a search finds; none where the model's outputs are beyond float64.
std::optional<double> observed_stretch(const Model& model, const CertifiedBound& bound, int64_t starts) {
  if (starts == 0 || bound.domain_radius < kLeastSearchDomain) return std::nullopt;
  try {
    const double found =
        search_stretch(model, {.domain = bound.domain_radius, .starts = static_cast<int>(starts)}).lipschitz;
    if (found <= bound.lipschitz.value) return found;
    throw PromiseError(
        "certify", fmt::format("a search found a stretch of {}, above the bound of {}: please report this",
                               found, bound.lipschitz.value));
  } catch (const NumericError&) {
    return std::nullopt;
  }
}

// certificate.json's text; also written to `out`, unless that is empty.
std::string certify_op(const std::string& folder, double radius, int64_t search, const std::string& out) {
  if (!fs::is_directory(folder))
    throw InputError(
        "certify",
        fmt::format("{} is not a folder; name one with config.json and model.safetensors", folder));
  if (search < 0) throw InputError("certify", fmt::format("search must be 0 or more, got {}", search));
  const StoredModel stored = read_model(folder);
  const CertifiedBound bound = certify(*stored.model, radius);
  const Certificate certificate =
      certificate_of(stored.identity, *stored.model, bound, observed_stretch(*stored.model, bound, search));
  if (!out.empty()) write_certificate(out, certificate);
  return certificate_text(certificate);
}

// What is larger than it needs to be, in words.
std::vector<std::string> check_op(const std::string& certificate, const std::string& folder) {
  return check_certificate(certificate, folder).loose;
}

TORCH_LIBRARY_FRAGMENT(bridle, library) {
  library.def("make_model(str config, int seed) -> (str, str[], Tensor[])", with_kind<make_model_op>());
  library.def("read_model(str folder) -> (str, str[], Tensor[], float)", with_kind<read_model_op>());
  library.def("write_model(str folder, str config, Tensor[] weights) -> str", with_kind<write_model_op>());
  library.def(
      "model_forward(str config, Tensor[] weights, Tensor inputs, ScalarType dtype, bool training=False, "
      "int dropout_seed=0, float window_share=1.) -> Tensor",
      with_kind<model_forward_op>());
  library.def("certify(str folder, float radius=0., int search=6, str out='') -> str",
              with_kind<certify_op>());
  library.def("check(str certificate, str folder) -> str[]", with_kind<check_op>());
}

}  // namespace
}  // namespace bridle
