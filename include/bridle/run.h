// A finished or stopped run, opened from its folder: to evaluate it, to sample from it, to look at it.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "bridle/nn.h"
#include "bridle/tokenizer.h"
#include "bridle/train.h"

namespace bridle {

struct Run {
  std::filesystem::path folder;
  RunOptions options;  // as config.toml has them
  std::unique_ptr<Model> model;
  std::unique_ptr<Tokenizer> tokenizer;  // null for images
};

// Throws InputError, saying what is missing.
Run open_run(const std::filesystem::path& folder);

// The run's data as it was trained on: "train", "validation" or "held_out". Throws InputError.
std::shared_ptr<const Source> open_run_split(const Run& run, const std::string& split);

struct SampleOptions {
  std::string prompt = "\n";
  int64_t tokens = 300;
  double temperature = 0.8;  // 0: the likeliest token each time
  uint64_t seed = 0;
};

// Continues the prompt; every piece of text goes to `on_text` as it comes. Returns all of it, without the prompt.
std::string sample(const Run& run, const SampleOptions& options,
                   const std::function<void(const std::string&)>& on_text = {});

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
