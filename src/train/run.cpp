#include "bridle/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string_view>

#include "base/files.h"
#include "bridle/error.h"
#include "data/image_source.h"
#include "io/model_folder.h"
#include "train/options.h"

namespace bridle {

namespace {

void refuse_what_is_no_run(const std::filesystem::path& folder) {
  if (!std::filesystem::is_directory(folder))
    throw InputError("run", fmt::format("{} is not a folder; name a run's folder, such as runs/quickstart",
                                        folder.string()));
  if (!std::filesystem::exists(folder / "config.toml"))
    throw InputError("run", fmt::format("{} is not a run: it has no config.toml", folder.string()));
  if (!std::filesystem::exists(folder / "model.safetensors")) {
    throw InputError(
        "run",
        fmt::format(
            "{} has no model.safetensors: the run has not saved yet; go on with bridle train --resume {}",
            folder.string(), folder.string()));
  }
}

// Of the newest checkpoint, beside which the model was saved; where there is none it is taken for finished.
int64_t saved_step(const std::filesystem::path& folder, int64_t steps) {
  constexpr std::string_view prefix = "step_";
  int64_t newest = -1;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(folder / "state", none)) {
    const std::string name = entry.path().filename();
    const char* digits = name.data() + std::min(prefix.size(), name.size());
    const char* end = name.data() + name.size();
    int64_t step = -1;
    if (name.starts_with(prefix) && std::from_chars(digits, end, step).ptr == end)
      newest = std::max(newest, step);
  }
  return newest < 0 ? steps : std::min(newest, steps);
}

}  // namespace

Run open_run(const std::filesystem::path& folder, at::Device device) {
  refuse_what_is_no_run(folder);
  return open_run(folder, read_model(folder, device).model);
}

Run open_run(const std::filesystem::path& folder, std::unique_ptr<Model> model) {
  refuse_what_is_no_run(folder);
  Run run{.folder = folder,
          .options = read_config(folder / "config.toml"),
          .model = std::move(model),
          .tokenizer = nullptr};
  const TrainingOptions& training = run.options.training;
  run.window_share = window_share(training, saved_step(folder, training.steps));
  if (std::filesystem::exists(folder / "vocab.json")) run.tokenizer = load_tokenizer(folder);
  return run;
}

std::shared_ptr<const Source> open_run_split(const Run& run, Split split, const std::string& source) {
  const DataSet data = open_data_set(run.options.data.name);
  const ModelShape shape = run.model->shape();
  if ((data.kind != DataKind::tokens) != (shape.input == InputKind::vectors))
    throw InputError("run", fmt::format("'{}' holds {}, which the model of {} does not take", data.name,
                                        data.kind == DataKind::tokens ? "tokens"
                                        : data.vectors                ? "vectors"
                                                                      : "images",
                                        run.folder.string()));
  if (data.vectors && (data.vectors->inputs != shape.size || data.outputs != shape.outputs))
    throw InputError(
        "run",
        fmt::format("'{}' has {} inputs and {} outputs, and the model of {} has {} and {}", data.name,
                    data.vectors->inputs, data.outputs, run.folder.string(), shape.size, shape.outputs));
  if (run.tokenizer &&
      (!data.has_tokenizer || read_file(data.folder / "vocab.json") != read_file(run.folder / "vocab.json")))
    throw InputError("run", fmt::format("'{}' has another vocabulary than {} was trained with", data.name,
                                        run.folder.string()));
  if (data.kind == DataKind::tokens && data.outputs > shape.outputs)
    throw InputError("run", fmt::format("'{}' has token ids up to {}, and the model of {} knows {} tokens",
                                        data.name, data.outputs - 1, run.folder.string(), shape.outputs));
  SourceOptions options = source_options(run.options);
  options.source = source;
  return open_split(data, split, options);
}

std::optional<ChannelStatistics> pixel_statistics(const Run& run) {
  if (!run.options.data.standardize) return std::nullopt;
  return channel_statistics(ImageFiles(open_data_set(run.options.data.name).train));
}

}  // namespace bridle
