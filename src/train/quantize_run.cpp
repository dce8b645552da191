// Turns the matrices and tables of a run, or of a bare folder, into 8-bit integers with a scale per row, certifies what they stand
// for, and bounds how far it is from the original.
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "bridle/certificate_file.h"
#include "bridle/error.h"
#include "bridle/quantize.h"
#include "bridle/random.h"
#include "bridle/run.h"
#include "bridle/safetensors.h"
#include "certify/deviation.h"
#include "io/model_folder.h"
#include "linalg/int8_rows.h"

namespace bridle {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

bool is_quantized(const Param& param) { return is_matrix(param.role) || is_table(param.role); }

class Quantized {
 public:
  explicit Quantized(const Model& original) : original_(original) {
    for (const Param& param : original.params()) {
      if (param.role == Role::head) head_ = param.name;
      if (!is_quantized(param)) continue;
      if (!param.tensor.detach().isfinite().all().item<bool>())
        throw PromiseError("quantize", fmt::format("{} holds NaN or infinity", param.name));
      rows_.emplace(param.name, int8_rows(param.tensor));
    }
  }

  std::unique_ptr<Model> model() const {
    std::map<std::string, at::Tensor> others;
    for (const Param& param : original_.params()) others[param.name] = param.tensor.detach();
    const auto give = [&](const std::string& name, at::IntArrayRef) {
      const auto own = rows_.find(name);
      return own == rows_.end() ? others.at(name).to(at::kFloat).clone() : own->second.values();
    };
    return make_model_from(give, original_.options().value());
  }

  // The logits are proportional to the head, and so is their bound.
  void scale_head_(double factor) {
    if (head_.empty())
      throw PromiseError(
          "quantize",
          "with tie_embeddings the head cannot be scaled for itself, so that this model cannot be "
          "brought below the bound; seal the original below a smaller one first");
    rows_.at(head_).scale_down_(factor);
  }

  SafetensorsFile file() const {
    SafetensorsFile file{.metadata = {{"format", "pt"}, {"bridle_version", BRIDLE_VERSION}}, .tensors = {}};
    for (const Param& param : original_.params())  // wider types first
      if (!rows_.contains(param.name))
        file.tensors.emplace_back(param.name, param.tensor.detach().to(at::kFloat));
    for (const auto& [name, rows] : rows_) file.tensors.emplace_back(name + ".scale", rows.scales);
    for (const auto& [name, rows] : rows_) file.tensors.emplace_back(name, rows.integers);
    return file;
  }
  int64_t count() const { return static_cast<int64_t>(rows_.size()); }

 private:
  const Model& original_;
  std::map<std::string, Int8Rows> rows_;
  std::string head_;
};

int64_t bytes_of(const SafetensorsFile& file) {
  int64_t bytes = 0;
  for (const auto& [name, tensor] : file.tensors)
    bytes += tensor.numel() * static_cast<int64_t>(tensor.element_size());
  return bytes;
}

double loss_of(const Run& run, const Model& model, const std::shared_ptr<const Source>& split) {
  return evaluate(model, split,
                  {.order = {.batch_size = run.options.data.batch_size}, .window_share = run.window_share})
      .loss;
}

std::shared_ptr<const Source> split_of(const Run& run, bool is_run, std::string& trouble) {
  if (!is_run) {
    trouble = "the folder is not a run, so its data is not known";
    return nullptr;
  }
  try {
    return open_run_split(run, Split::validation);
  } catch (const InputError& error) {
    trouble = error.what();
    return nullptr;
  }
}

// Some inputs of the data, or of the domain.
at::Tensor some_inputs(const Model& model, const std::shared_ptr<const Source>& split) {
  constexpr int64_t count = 64;
  if (split) {
    std::vector<int64_t> starts;
    for (int64_t i = 0; i < count && i * split->stride() < split->size(); ++i)
      starts.push_back(i * split->stride());
    return split->read(starts).inputs;
  }
  const ModelShape shape = model.shape();
  const RandomKey key{.seed = 0, .stream = Stream::search, .step = 1};
  if (shape.input == InputKind::tokens)
    return random_integers({count, std::min<int64_t>(shape.longest, 64)}, shape.outputs, key);
  const at::Tensor x = random_normal({count, shape.size}, key);
  const auto norms = measured_norms();
  const double radius = model.input_bound(*norms).to_double();
  return x.div(x.square().mean(1, true).sqrt()).mul(radius * (1.0 - 1e-6));
}

double observed(const Model& original, const Model& changed, const at::Tensor& inputs) {
  const at::NoGradGuard no_gradients;
  Pass pass{.dtype = at::kDouble};
  double largest = 0.0;
  for (const at::Tensor& part : inputs.split(8)) {
    Pass first = pass, second = pass;
    const at::Tensor apart = original.forward(part, first).sub(changed.forward(part, second));
    largest = std::max(largest, apart.square().mean(-1).sqrt().max().item<double>());
  }
  return largest;
}

Json or_null(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

Json statement(const QuantizeResult& result, const std::string& sha256, const std::string& original) {
  return {{"schema", 1},
          {"bits", 8},
          {"original_sha256", original},
          {"sha256", sha256},
          {"norm", "RMS of the difference of the logits, the largest over tokens"},
          {"domain_radius", result.bound.domain_radius},
          {"deviation_bound", or_null(result.deviation.value)},
          {"log10_deviation_bound", or_null(result.deviation.log10)},
          {"largest_logit_deviation_bound", or_null(result.largest_logit_deviation.value)},
          {"observed_deviation", result.observed_deviation}};
}

// All files, or nothing.
void write_quantized(const fs::path& folder, const Quantized& rows, const Model& model,
                     const std::string& original, const QuantizeResult& result, const fs::path& out) {
  const fs::path place = fs::absolute(out / "").lexically_normal().parent_path();
  const fs::path fresh =
      place.parent_path() / fmt::format(".{}.{}.new", place.filename().string(), ::getpid());
  make_folder(fresh);
  try {
    const ModelIdentity written = write_model(model, fresh, certificate_metadata(result.bound));
    write_certificate(fresh / "certificate.json", certificate_of(written, model, result.bound));
    write_safetensors(fresh / "int8.safetensors", rows.file());
    write_file(fresh / "quantization.json", statement(result, written.sha256, original).dump(2) + "\n");
    for (const char* name : {"config.toml", "vocab.json", "merges.txt", "statistics.json"})
      if (fs::exists(folder / name)) fs::copy_file(folder / name, fresh / name);
    publish(fresh, place);
  } catch (const std::exception&) {
    std::error_code ignored;
    fs::remove_all(fresh, ignored);
    throw;
  }
}

double budget_of(const Run& run, bool is_run, std::optional<double> lipschitz) {
  if (lipschitz && !(*lipschitz > 0.0 && std::isfinite(*lipschitz)))
    throw InputError("quantize", fmt::format("--lipschitz must be positive, got {}", *lipschitz));
  if (lipschitz) return *lipschitz;
  const ConstraintSettings& settings = run.options.constraint;
  return is_run && settings.formula == BoundFormula::sound ? settings.lipschitz : 0.0;
}

// Below the budget: the head takes what is above it.
std::unique_ptr<Model> sealed(Quantized& rows, double budget, QuantizeResult& result) {
  constexpr int most = 8;
  auto model = rows.model();
  result.bound = certify(*model);
  for (int i = 0; budget > 0.0 && result.bound.lipschitz.value > budget; ++i) {
    if (i == most)
      throw PromiseError("quantize",
                         fmt::format("a bound of {} was not reached by scaling the head", budget));
    const double factor = budget / result.bound.lipschitz.value * (1.0 - 1e-9);
    rows.scale_head_(factor);
    result.head_scale *= factor;
    model = rows.model();
    result.bound = certify(*model);
  }
  return model;
}

}  // namespace

QuantizeResult quantize_model(const fs::path& folder, const fs::path& out, std::optional<double> lipschitz) {
  const bool is_run = fs::exists(folder / "config.toml");
  if (fs::exists(out) && !(fs::is_directory(out) && fs::is_empty(out)))
    throw InputError("quantize",
                     fmt::format("--out must be missing or empty, and {} is there already", out.string()));
  if (!fs::is_directory(folder))
    throw InputError("quantize", fmt::format("{} is not a folder; name a run, or one with config.json and "
                                             "model.safetensors",
                                             folder.string()));
  StoredModel stored = read_model(folder);
  const std::string original = stored.identity.sha256;
  Run run;
  if (is_run)
    run = open_run(folder, std::move(stored.model));
  else
    run.model = std::move(stored.model);
  const double budget = budget_of(run, is_run, lipschitz);
  Quantized rows(*run.model);
  QuantizeResult result{.matrices = rows.count(), .before = certify(*run.model)};
  const auto model = sealed(rows, budget, result);
  const DeviationBound apart = deviation_bound(*run.model, *model);
  result.deviation = apart.deviation;
  result.largest_logit_deviation = apart.largest_logit;
  for (const Param& param : run.model->params())
    result.bytes_before += param.tensor.numel() * static_cast<int64_t>(param.tensor.element_size());
  result.bytes_after = bytes_of(rows.file());
  const auto split = split_of(run, is_run, result.no_loss);
  if (split) {
    result.loss_before = loss_of(run, *run.model, split);
    result.loss_after = loss_of(run, *model, split);
  }
  result.observed_deviation = observed(*run.model, *model, some_inputs(*run.model, split));
  if (result.observed_deviation > result.deviation.value)
    throw PromiseError("quantize",
                       fmt::format("inputs were found whose logits are {} apart, above the bound of {}: "
                                   "please report this",
                                   result.observed_deviation, result.deviation.value));
  write_quantized(folder, rows, *model, original, result, out);
  return result;
}

}  // namespace bridle
