// bridle sample: text from a run.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/files.h"
#include "base/stopwatch.h"
#include "bridle/run.h"
#include "device_flag.h"
#include "verbs.h"

namespace bridle {
namespace {

struct Flags {
  std::string run;
  SampleOptions options;
  std::string device = "cpu";
  bool keep = false;
  bool json = false;
};

using Json = nlohmann::ordered_json;

// A line more in samples.jsonl, for the run's page.
void keep(const Flags& flags, const std::string& text) {
  const Json line{{"prompt", flags.options.prompt},
                  {"text", text},
                  {"temperature", flags.options.temperature},
                  {"seed", flags.options.seed}};
  OutputFile file(std::filesystem::path(flags.run) / "samples.jsonl", OutputFile::Mode::append);
  file.write(line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
  file.close();
}

// The prompt, and what follows it as it comes. A prompt that is refused is not shown.
std::string show_sample(const Run& run, const SampleOptions& options) {
  bool begun = false;
  const auto show = [&](const std::string& text) {
    fmt::print("{}{}", std::exchange(begun, true) ? "" : options.prompt, text);
    std::fflush(stdout);
  };
  std::string text = sample(run, options, show);
  show("\n");
  return text;
}

void sample_text(const Flags& flags) {
  const Run run = open_run(flags.run, device_named(flags.device, "sample"));
  const Timer timer;
  const std::string text = flags.json ? sample(run, flags.options) : show_sample(run, flags.options);
  if (flags.keep) keep(flags, text);
  const double rate = static_cast<double>(flags.options.tokens) / timer.seconds();
  if (!flags.json) return fmt::print(stderr, "{:.0f} tokens/s\n", rate);
  const Json facts{{"schema", 1},
                   {"run", flags.run},
                   {"prompt", flags.options.prompt},
                   {"text", text},
                   {"tokens", flags.options.tokens},
                   {"tokens_per_second", rate}};
  fmt::print("{}\n", facts.dump(2, ' ', false, Json::error_handler_t::replace));
}

}  // namespace

void add_sample(CLI::App& app) {
  CLI::App* verb = app.add_subcommand("sample", "Generate text with a run");
  verb->footer(
      "Examples:\n  bridle sample runs/quickstart --prompt 'ROMEO:' --tokens 500\n  bridle sample "
      "runs/quickstart --temperature 0.8 --top-k 20\n  bridle sample runs/quickstart --temperature 0 --json");
  auto flags = std::make_shared<Flags>();
  verb->add_option("run", flags->run, "A run's folder")->required()->type_name("RUN");
  verb->add_option("--prompt", flags->options.prompt, "What the text begins with [a new line]")
      ->type_name("TEXT");
  verb->add_option("--tokens", flags->options.tokens, "How many to generate")
      ->type_name("N")
      ->capture_default_str();
  verb->add_option("--temperature", flags->options.temperature, "0: the likeliest each time")
      ->type_name("T")
      ->capture_default_str();
  verb->add_option("--top-k", flags->options.top_k, "Draw from the k likeliest tokens; 0: from all")
      ->type_name("K")
      ->capture_default_str();
  verb->add_option("--seed", flags->options.seed, "Another seed, another text")
      ->type_name("N")
      ->capture_default_str();
  add_device(*verb, flags->device);
  verb->add_flag("--keep", flags->keep, "Also add it to RUN/samples.jsonl, which bridle report shows");
  verb->add_flag("--json", flags->json, "Print one JSON object");
  verb->callback([flags] { sample_text(*flags); });
}

}  // namespace bridle
