// bridle check: a certificate, proved again from the weights.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <nlohmann/json.hpp>

#include "bridle/certificate_file.h"
#include "certificate_text.h"
#include "verbs.h"

namespace bridle {
namespace {

namespace fs = std::filesystem;

struct Flags {
  std::string certificate;
  std::string model;
  bool json = false;
};

void check(const Flags& flags) {
  const fs::path path = flags.certificate;
  const fs::path folder = flags.model.empty() ? path.parent_path() : fs::path(flags.model);
  const auto [certificate, loose] = check_certificate(path, folder.empty() ? "." : folder);
  if (flags.json) {
    const nlohmann::ordered_json facts{
        {"schema", 1}, {"valid", true}, {"tight", loose.empty()}, {"remarks", loose}};
    return fmt::print("{}\n", facts.dump(2));
  }
  fmt::print("{}: {}\n", path.string(), loose.empty() ? "valid" : "valid, not tight");
  constexpr size_t most = 5;
  for (size_t i = 0; i < std::min(most, loose.size()); ++i) fmt::print("  {}\n", loose[i]);
  if (loose.size() > most) fmt::print("  and {} more\n", loose.size() - most);
  print_certificate(certificate);
}

}  // namespace

void add_check(CLI::App& app) {
  CLI::App* verb = app.add_subcommand("check", "Prove a certificate again, from the weights");
  verb->footer(
      "Examples:\n"
      "  bridle check runs/quickstart/certificate.json\n"
      "  bridle check certificate.json --model runs/quickstart     the weights lie elsewhere\n"
      "Exit codes: 0 it holds; 1 a file cannot be read; 2 wrong usage; 3 it does not hold.");
  auto flags = std::make_shared<Flags>();
  verb->add_option("certificate", flags->certificate, "The certificate to prove again")
      ->required()
      ->type_name("FILE");
  verb->add_option("--model", flags->model, "Folder of the model [the certificate's own]")->type_name("DIR");
  verb->add_flag("--json", flags->json, "Print one JSON object");
  verb->callback([flags] { check(*flags); });
}

}  // namespace bridle
