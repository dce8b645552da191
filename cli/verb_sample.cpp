// bridle sample: text from a run.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

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

void sample_text(const Flags& flags) {
  const Run run = open_run(flags.run, device_named(flags.device, "sample"));
  const Timer timer;
  const auto show = [](const std::string& text) {
    fmt::print("{}", text);
    std::fflush(stdout);
  };
  if (!flags.json) show(flags.options.prompt);
  const std::string text = flags.json ? sample(run, flags.options) : sample(run, flags.options, show);
  if (flags.keep) keep(flags, text);
  const double rate = static_cast<double>(flags.options.tokens) / timer.seconds();
  if (flags.json) {
    const Json facts{{"schema", 1},
                     {"run", flags.run},
                     {"prompt", flags.options.prompt},
                     {"text", text},
                     {"tokens", flags.options.tokens},
                     {"tokens_per_second", rate}};
    fmt::print("{}\n", facts.dump(2, ' ', false, Json::error_handler_t::replace));
  } else {
    show("\n");
    fmt::print(stderr, "{:.0f} tokens a second\n", rate);
  }
}

}  // namespace

void add_sample(CLI::App& app) {
  CLI::App* verb = app.add_subcommand("sample", "Generate text with a run");
  verb->footer(
      "Examples:\n  bridle sample runs/quickstart --prompt 'ROMEO:' --tokens 500\n  bridle sample "
      "runs/quickstart --temperature 0 --json");
  auto flags = std::make_shared<Flags>();
  verb->add_option("run", flags->run, "A run's folder")->required();
  verb->add_option("--prompt", flags->options.prompt, "What the text begins with [a new line]");
  verb->add_option("--tokens", flags->options.tokens, "How many to generate")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  verb->add_option("--temperature", flags->options.temperature, "0: the likeliest each time")
      ->capture_default_str();
  verb->add_option("--seed", flags->options.seed, "Another seed, another text")->capture_default_str();
  add_device(*verb, flags->device);
  verb->add_flag("--keep", flags->keep, "Also add it to RUN/samples.jsonl, which bridle report shows");
  verb->add_flag("--json", flags->json, "Print one JSON object");
  verb->callback([flags] { sample_text(*flags); });
}

}  // namespace bridle
