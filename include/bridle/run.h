// A finished or stopped run, opened from its folder: to evaluate it, to sample from it, to look at it.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bridle/certify.h"
#include "bridle/data.h"
#include "bridle/nn.h"
#include "bridle/tokenizer.h"
#include "bridle/train.h"

namespace bridle {

struct Run {
  std::filesystem::path folder;
  RunOptions options;         // as config.toml has them
  double window_share = 1.0;  // how far its attention windows had grown when the model was saved
  std::unique_ptr<Model> model;
  std::unique_ptr<Tokenizer> tokenizer;  // null for images
};

// Its model on the given device. Throws InputError, saying what is missing.
Run open_run(const std::filesystem::path& folder, at::Device device = at::kCPU);

// The same with a model that has been read from the folder already.
Run open_run(const std::filesystem::path& folder, std::unique_ptr<Model> model);

// The run's data as it was trained on. Throws InputError.
// `source`: of the validation part what comes from this source alone, where the data set has several; empty: all of it.
std::shared_ptr<const Source> open_run_split(const Run& run, Split split, const std::string& source = {});

// What the run's pixels were standardised by, where they were.
std::optional<ChannelStatistics> pixel_statistics(const Run& run);

struct SampleOptions {
  std::string prompt = "\n";
  int64_t tokens = 300;
  double temperature = 0.8;  // 0: the likeliest token each time
  int64_t top_k = 0;         // draws from so many of the likeliest tokens; 0: from all
  uint64_t seed = 0;
};

// Continues the prompt; every piece of text goes to `on_text` as it comes. Returns all of it, without the prompt.
std::string sample(const Run& run, const SampleOptions& options,
                   const std::function<void(const std::string&)>& on_text = {});
std::string sample(const Model& model, const Tokenizer& tokenizer, const SampleOptions& options,
                   const std::function<void(const std::string&)>& on_text = {});

// The model brought below its caps (or below a sound bound), in the precision it is stored in, in a folder of its own.
struct SealResult {
  std::vector<std::string> changed;   // weights
  std::optional<double> loss_before;  // on the validation split, where that is here
  std::optional<double> loss_after;
  std::string no_loss;  // why there is none
  CertifiedBound bound;
};

// `folder` is a run, or holds config.json and model.safetensors; without a bound the caps are those of the run. Writes
// config.json, model.safetensors and certificate.json to `out`, which must be missing or empty. Throws InputError, PromiseError.
SealResult seal_run(const std::filesystem::path& folder, const std::filesystem::path& out,
                    std::optional<double> lipschitz = std::nullopt);

// What a run leaves for people to see how it was made: run.json.
struct RunInfo {
  std::string command;
  std::string version;
  std::string commit;
  std::string status;  // running, finished, stopped, failed
  uint64_t seed = 0;
};
void write_run_info(const std::filesystem::path& folder, const RunInfo& info);

// Changes the status alone; a resumed run keeps what it says of its beginning.
void update_run_status(const std::filesystem::path& folder, const std::string& status);

}  // namespace bridle
