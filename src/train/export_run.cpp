// Exports the model of a run, or of a bare folder.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "base/files.h"
#include "bridle/certificate_file.h"
#include "bridle/error.h"
#include "bridle/export.h"
#include "bridle/random.h"
#include "bridle/run.h"
#include "bridle/safetensors.h"
#include "io/export_header.h"
#include "io/export_onnx.h"
#include "io/export_torch.h"
#include "io/model_folder.h"
#include "io/vnnlib.h"
#include "robust/certified_radius.h"

namespace bridle {

const char* word(ExportFormat format) {
  switch (format) {
    case ExportFormat::header:
      return "header";
    case ExportFormat::torch:
      return "torch";
    case ExportFormat::onnx:
      return "onnx";
  }
  return nullptr;
}

namespace {

namespace fs = std::filesystem;

// A run, or a folder with a model alone.
struct Exported {
  std::optional<Run> run;
  std::unique_ptr<Model> bare;
  ModelIdentity identity;
  std::optional<CertifiedBound> bound;
  const Model& model() const { return run ? *run->model : *bare; }
};

Exported open_exported(const fs::path& folder) {
  if (!fs::is_directory(folder))
    throw InputError(
        "export", fmt::format("{} is not a folder; name a run, or one with config.json and model.safetensors",
                              folder.string()));
  Exported result;
  StoredModel stored = read_model(folder);
  result.identity = stored.identity;
  if (fs::exists(folder / "config.toml"))
    result.run = open_run(folder, std::move(stored.model));
  else
    result.bare = std::move(stored.model);
  const std::optional<ModelOptions> options = result.model().options();
  const auto* transformer = options ? std::get_if<TransformerOptions>(&*options) : nullptr;
  if (result.run && result.run->window_share < 1.0 && transformer != nullptr &&
      transformer->attention_window > 0)
    throw InputError(
        "export", fmt::format("attention windows of {} are still growing (training.grow_windows); export it "
                              "at the end of its training",
                              folder.string()));
  try {
    result.bound = certify(result.model());
  } catch (const PromiseError&) {
    // it is exported without a bound
  }
  return result;
}

// Inputs of the domain: tokens, each as likely as another, or vectors with RMS of up to the model's bound.
at::Tensor inputs_of(const Model& model, int64_t count) {
  const ModelShape shape = model.shape();
  const RandomKey key{.seed = 0, .stream = Stream::search, .step = 0};
  if (shape.input == InputKind::tokens)
    return random_integers({count, std::min<int64_t>(shape.longest, 64)}, shape.outputs, key);
  const at::Tensor directions = random_normal({count, shape.size}, key, at::kDouble);
  const at::Tensor rms = directions.square().mean(1, /*keepdim=*/true).sqrt().clamp_min(1e-30);
  const auto norms = measured_norms();
  const at::Tensor radius = at::arange(1, count + 1, at::kDouble)
                                .div(static_cast<double>(count))
                                .mul(model.input_bound(*norms).to_double());
  return directions.div(rms).mul(radius.unsqueeze(1)).mul(1.0 - 1e-6).to(at::kFloat);
}

void write_examples(const Model& model, int64_t count, const fs::path& path) {
  const at::NoGradGuard no_gradients;
  const at::Tensor inputs = inputs_of(model, count);
  std::vector<at::Tensor> logits;
  Pass pass{.dtype = at::kDouble};
  for (const at::Tensor& part : inputs.split(16)) logits.push_back(model.forward(part, pass));
  write_safetensors(path, {.metadata = {}, .tensors = {{"logits", at::cat(logits)}, {"inputs", inputs}}});
}

std::optional<Standardisation> standardisation_of(const Exported& from) {
  if (!from.run) return std::nullopt;
  if (const std::optional<VectorStatistics> own = read_statistics(from.run->folder)) {
    if (own->mean.empty()) return std::nullopt;
    return Standardisation{.mean = own->mean, .deviation = own->deviation, .each = 1};
  }
  const std::optional<ChannelStatistics> statistics = pixel_statistics(*from.run);
  if (!statistics) return std::nullopt;
  return Standardisation{.mean = {statistics->mean.begin(), statistics->mean.end()},
                         .deviation = {statistics->deviation.begin(), statistics->deviation.end()},
                         .each = from.model().shape().size / 3};
}

void write_header(const Exported& from, const fs::path& out) {
  write_file(out, header_text(from.model(), {.name = identifier_of(out.stem().string()),
                                             .sha256 = from.identity.sha256,
                                             .bound = from.bound,
                                             .standard = standardisation_of(from)}));
}

std::map<std::string, std::string> onnx_metadata(const Exported& from) {
  std::map<std::string, std::string> facts{{"model_sha256", from.identity.sha256},
                                           {"bridle_version", BRIDLE_VERSION}};
  if (!from.bound) return facts;
  const CertifiedBound& bound = *from.bound;
  facts["lipschitz"] = fmt::format("{}", bound.lipschitz.value);
  facts["log10_lipschitz"] = fmt::format("{}", bound.lipschitz.log10);
  facts["lipschitz_norm"] = "RMS to RMS, largest over tokens; of transformers from the embedded tokens";
  facts["domain_radius"] = fmt::format("{}", bound.domain_radius);
  return facts;
}

// The text, before anything is written.
std::string property_of(const Exported& from, const ExportOptions& options, ExportResult& result) {
  if (!from.run)
    throw InputError("export", "--property needs a run, whose validation split it takes its example from");
  if (!from.bound)
    throw PromiseError("export", "this model has no finite bound, so that no radius is certified");
  const auto split = open_run_split(*from.run, Split::validation);
  if (*options.property < 0 || *options.property >= split->size())
    throw InputError("export", fmt::format("--property must be from 0 to {}, got {}", split->size() - 1,
                                           *options.property));
  const at::Tensor vector = split->read(std::vector<int64_t>{*options.property}).inputs.reshape({-1});
  const CertifiedRadius radius = certified_radius(from.model(), *from.bound, vector);
  if (options.epsilon == 0.0 && radius.largest == 0.0)
    throw PromiseError(
        "export", fmt::format("no radius is certified for example {}: its margin is within rounding; name "
                              "one with --eps",
                              *options.property));
  result.certified_euclidean = radius.euclidean;
  result.certified_epsilon = radius.largest;
  result.epsilon = options.epsilon > 0.0 ? options.epsilon : radius.largest;
  const std::string known = *result.epsilon <= radius.largest
                                ? "Certified by Bridle: the answer is unsat."
                                : fmt::format("Certified by Bridle up to {}.", radius.largest);
  return vnnlib_text({.vector = vector,
                      .predicted = radius.predicted,
                      .outputs = from.model().shape().outputs,
                      .epsilon = *result.epsilon,
                      .note = fmt::format("Validation example {}, every input within {} of it. {}",
                                          *options.property, *result.epsilon, known)});
}

// All files, or nothing.
void write_torch(const Exported& from, const fs::path& folder, const ExportOptions& options,
                 ExportResult& result) {
  const fs::path& out = options.out;
  if (fs::exists(out) && !(fs::is_directory(out) && fs::is_empty(out)))
    throw InputError("export",
                     fmt::format("--out must be missing or empty, and {} is there already", out.string()));
  const fs::path place = fs::absolute(out / "").lexically_normal().parent_path();
  const fs::path fresh =
      place.parent_path() / fmt::format(".{}.{}.new", place.filename().string(), ::getpid());
  make_folder(fresh);
  try {
    const ModelIdentity written =
        write_model(from.model(), fresh,
                    from.bound ? certificate_metadata(*from.bound) : std::map<std::string, std::string>{});
    if (from.bound)
      write_certificate(fresh / "certificate.json", certificate_of(written, from.model(), *from.bound));
    write_torch_module(fresh);
    for (const char* name : {"vocab.json", "merges.txt", "statistics.json"})
      if (fs::exists(folder / name)) fs::copy_file(folder / name, fresh / name);
    if (options.examples > 0) write_examples(from.model(), options.examples, fresh / "examples.safetensors");
    publish(fresh, place);
  } catch (const std::exception&) {
    std::error_code ignored;
    fs::remove_all(fresh, ignored);
    throw;
  }
  for (const auto& entry : fs::directory_iterator(place))
    result.files.push_back(out / entry.path().filename());
  std::sort(result.files.begin(), result.files.end());
}

void check(const ExportOptions& options) {
  if (options.examples < 0)
    throw InputError("export", fmt::format("--examples must be 0 or more, got {}", options.examples));
  if (!(options.epsilon >= 0.0 && std::isfinite(options.epsilon)))
    throw InputError("export", fmt::format("--eps must be positive, got {}", options.epsilon));
  if (options.property && options.format != ExportFormat::onnx)
    throw InputError("export",
                     fmt::format("--property goes with --format onnx, got {}", word(options.format)));
  if (options.format != ExportFormat::torch && fs::is_directory(options.out))
    throw InputError("export", fmt::format("--out must be a file for --format {}, and {} is a folder",
                                           word(options.format), options.out.string()));
}

}  // namespace

ExportResult export_model(const fs::path& folder, const ExportOptions& options) {
  check(options);
  const Exported from = open_exported(folder);
  ExportResult result{.sha256 = from.identity.sha256};
  if (from.bound && std::isfinite(from.bound->lipschitz.value))
    result.lipschitz = from.bound->lipschitz.value;
  std::string property;
  if (options.property) property = property_of(from, options, result);
  const auto beside = [&](const fs::path& path) { return result.files.emplace_back(path); };
  switch (options.format) {
    case ExportFormat::torch:
      write_torch(from, folder, options, result);
      return result;
    case ExportFormat::header:
      write_header(from, beside(options.out));
      break;
    case ExportFormat::onnx:
      write_file(beside(options.out),
                 onnx_bytes(from.model(), identifier_of(options.out.stem().string()), onnx_metadata(from)));
      break;
  }
  if (options.examples > 0)
    write_examples(from.model(), options.examples,
                   beside(options.out.parent_path() / "examples.safetensors"));
  if (options.property) write_file(beside(fs::path(options.out).replace_extension(".vnnlib")), property);
  return result;
}

}  // namespace bridle
