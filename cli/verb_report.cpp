// bridle report: a page for runs and sweeps.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "bridle/report.h"
#include "verbs.h"

namespace bridle {
namespace {

namespace fs = std::filesystem;

struct Flags {
  std::vector<std::string> what;
  std::string out = "report";
  std::string title;
  bool json = false;
};

void report(const Flags& flags) {
  const std::string page = report_template("/proc/self/exe");
  const std::string data =
      report_data({flags.what.begin(), flags.what.end()}, {.title = flags.title, .live = false});
  make_folder(flags.out);
  const fs::path path = fs::path(flags.out) / "index.html";
  const std::string whole = report_page(page, data);
  write_file(path, whole);
  if (flags.json) {
    const nlohmann::ordered_json facts{{"schema", 1}, {"page", path.string()}, {"bytes", whole.size()}};
    return fmt::print("{}\n", facts.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
  }
  fmt::print("written to {} ({:.1f} MB); open it in a browser: it needs no network\n", path.string(),
             1e-6 * static_cast<double>(whole.size()));
}

}  // namespace

void add_report(CLI::App& app) {
  CLI::App* verb = app.add_subcommand("report", "A page for runs and sweeps: one HTML file, no network");
  verb->footer(
      "Examples:\n"
      "  bridle report runs/quickstart\n"
      "  bridle report runs/quickstart runs/wide --out report\n"
      "  bridle report experiments/cifar_frontier/frontier.csv --out report --title 'CIFAR-10: the "
      "frontier'");
  auto flags = std::make_shared<Flags>();
  verb->add_option("what", flags->what, "Runs' folders, and sweeps: SWEEP.toml or SWEEP.csv")
      ->required()
      ->type_name("PATH");
  verb->add_option("--out", flags->out, "Folder of the page, index.html")
      ->type_name("DIR")
      ->capture_default_str();
  verb->add_option("--title", flags->title, "The page's title [the names of what it shows]")
      ->type_name("TEXT");
  verb->add_flag("--json", flags->json, "Print one JSON object");
  verb->callback([flags] { report(*flags); });
}

}  // namespace bridle
