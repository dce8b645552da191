// bridle certify: a bound that is true, the file that proves it, and its check.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/words.h"
#include "bound_text.h"
#include "bridle/certificate_file.h"
#include "bridle/certify.h"
#include "bridle/error.h"
#include "bridle/predictions.h"
#include "bridle/run.h"
#include "progress_line.h"
#include "verbs.h"
#include "walk_text.h"

namespace bridle {
namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

enum class ShownFormula { sound, paper, lipsformer };

const char* word(ShownFormula formula) {
  switch (formula) {
    case ShownFormula::sound:
      return "sound";
    case ShownFormula::paper:
      return "paper";
    case ShownFormula::lipsformer:
      return "lipsformer";
  }
  return nullptr;
}

struct Flags {
  std::string run;
  std::string check;
  std::string model;
  std::string formula = "sound";
  std::string out;
  std::string seal;
  std::optional<double> lipschitz;
  double radius = 0.0;
  int search = 6;
  int64_t local = 0;
  bool predictions = false;
  std::vector<double> epsilon;
  bool json = false;
};

// A run, or just a model: the folder needs no more than config.json and model.safetensors.
StoredModel model_in(const fs::path& folder) {
  if (!fs::is_directory(folder))
    throw InputError(
        "certify",
        fmt::format("{} is not a folder; name one with config.json and model.safetensors", folder.string()));
  return read_model(folder);
}

// ---- The certificate, for people

void print_certificate(const Certificate& certificate) {
  const CertifiedBound& bound = certificate.bound;
  const auto line = [](const char* what, const std::string& value) { fmt::print("{:<22}{}\n", what, value); };
  line("Lipschitz bound", fmt::format("{}   log10 {}   RMS → RMS, the largest over tokens",
                                      text_of(bound.lipschitz), log_text(bound.lipschitz.log10)));
  line("any one logit", fmt::format("{}   RMS → its absolute change", text_of(bound.largest_logit)));
  line("holds for", fmt::format("inputs of norm up to {} ({} as stored, moved by up to {})",
                                bound.domain_radius, bound.token_radius, bound.attack_radius));
  if (certificate.observed && *certificate.observed > 0.0) {
    const double shown = std::floor(std::nextafter(*certificate.observed * 1e6, 0.0)) / 1e6;
    line("observed",
         fmt::format(
             "{}, the most that a search found: at least so much is reached; the bound is {:.4g} times that",
             shown, bound.lipschitz.value / *certificate.observed));
  }
  print_layers(certificate);
}

void print_predictions(const CertifiedPredictions& p) {
  fmt::print(
      "\n{} predictions, accuracy {:.2f} %. exact: of the network in exact arithmetic; float32, bfloat16: of "
      "what\nLibTorch's operators compute of it in that precision, at the input and at every perturbed "
      "one.\n",
      p.targets, 100.0 * p.accuracy);
  // Never more than what is certified.
  const auto percent = [](double share) { return std::floor(1e4 * share) / 100.0; };
  fmt::print("{:<10}{:>22}{:>18}{:>14}\n", "function", p.norm == "l2" ? "ε (ℓ2)" : "ε (RMS)", "cannot change",
             "and right");
  for (const CertifiedFunction& of : p.functions) {
    const auto none = [](const CertifiedShare& share) { return share.certified == 0.0; };
    if (std::ranges::all_of(of.shares, none)) {
      fmt::print("{:<10}{:>22}{:>16.2f} %{:>12.2f} %\n", of.function, "all of these", 0.0, 0.0);
      continue;
    }
    for (const CertifiedShare& share : of.shares)
      fmt::print("{:<10}{:>22}{:>16.2f} %{:>12.2f} %\n", of.function, share.epsilon, percent(share.certified),
                 percent(share.certified_accuracy));
  }
}

Json predictions_json(const CertifiedPredictions& p) {
  Json shares = Json::array();
  for (const CertifiedFunction& of : p.functions) {
    for (const CertifiedShare& share : of.shares)
      shares.push_back({{"function", of.function},
                        {"epsilon", share.epsilon},
                        {"certified", share.certified},
                        {"certified_accuracy", share.certified_accuracy}});
  }
  return {{"norm", p.norm}, {"targets", p.targets}, {"accuracy", p.accuracy}, {"shares", shares}};
}

// ---- What the flags ask for

void paper(const Flags& flags) {
  const auto model = model_in(flags.run).model;
  const auto norms = measured_norms();
  const UpperBound value = paper_formula(*model, *norms);
  const UpperBound coded = paper_formula(*model, *norms, FinalScale::forgotten);
  if (flags.json) {
    const Json facts{
        {"schema", 1},
        {"formula", "paper"},
        {"certified", false},
        {"lipschitz", std::isfinite(value.to_double()) ? Json(value.to_double()) : Json(nullptr)},
        {"log10_lipschitz", value.log10()},
        {"log10_lipschitz_without_final_scale", coded.log10()},
        {"norm", "RMS to RMS, of whole matrices"}};
    return fmt::print("{}\n", facts.dump(2));
  }
  if (coded.log10() != value.log10())
    fmt::print("{:<22}{}   log10 {}   without the final scale, which it forgets\n", "as its code has it",
               coded.to_string(), log_text(coded.log10()));
  fmt::print(
      "{:<22}{}   log10 {}\n\nThis is not a certificate: with several heads, and for GeLU, the formula "
      "is too "
      "small (docs/theory/modules.md).\n",
      "the paper's formula", value.to_string(), log_text(value.log10()));
}

void lipsformer(const Flags& flags) {
  const auto model = model_in(flags.run).model;
  const UpperBound value = lipsformer_formula(*model, *measured_norms());
  if (flags.json) {
    const Json facts{
        {"schema", 1},
        {"formula", "lipsformer"},
        {"certified", false},
        {"lipschitz", std::isfinite(value.to_double()) ? Json(value.to_double()) : Json(nullptr)},
        {"log10_lipschitz", value.log10()},
        {"norm", "spectral norms of whole matrices; N is the head's size"}};
    return fmt::print("{}\n", facts.dump(2));
  }
  fmt::print(
      "{:<22}{}   log10 {}\n\nThis is not a certificate: it is LipsFormer's theorem 1 and equation 19 as the "
      "paper uses\nthem, with the size of a head as N, without W_O and the head "
      "(docs/theory/modules.md).\n",
      "LipsFormer's formula", value.to_string(), log_text(value.log10()));
}

void check(const Flags& flags) {
  const fs::path path = flags.check;
  const fs::path folder = flags.model.empty() ? path.parent_path() : fs::path(flags.model);
  const auto [certificate, loose] = check_certificate(path, folder.empty() ? "." : folder);
  if (flags.json) {
    const Json facts{{"schema", 1}, {"valid", true}, {"tight", loose.empty()}, {"remarks", loose}};
    return fmt::print("{}\n", facts.dump(2));
  }
  fmt::print("{}: {}\n", path.string(), loose.empty() ? "valid" : "valid, not tight");
  constexpr size_t most = 5;
  for (size_t i = 0; i < std::min(most, loose.size()); ++i) fmt::print("  {}\n", loose[i]);
  if (loose.size() > most) fmt::print("  and {} more\n", loose.size() - most);
  print_certificate(certificate);
}

void seal(const Flags& flags) {
  const SealResult result = seal_run(flags.run, flags.seal, flags.lipschitz);
  if (flags.json) {
    const Json facts{
        {"schema", 1},
        {"changed", result.changed},
        {"loss_before", result.loss_before ? Json(*result.loss_before) : Json(nullptr)},
        {"loss_after", result.loss_after ? Json(*result.loss_after) : Json(nullptr)},
        {"lipschitz",
         std::isfinite(result.bound.lipschitz.value) ? Json(result.bound.lipschitz.value) : Json(nullptr)},
        {"log10_lipschitz", result.bound.lipschitz.log10}};
    return fmt::print("{}\n", facts.dump(2));
  }
  fmt::print("{} weights were scaled\n", result.changed.size());
  if (result.loss_before)
    fmt::print("validation loss {:.6f} before, {:.6f} after\n", *result.loss_before, *result.loss_after);
  else
    fmt::print("no loss: {}\n", result.no_loss);
  fmt::print("Lipschitz bound {}; sealed and certified in {}\n", text_of(result.bound.lipschitz), flags.seal);
}

// The inputs of the first `count` examples of the validation split.
std::vector<at::Tensor> inputs_of(const Run& run, int64_t count) {
  const Evaluation batches(open_run_split(run, Split::validation),
                           {.batch_size = std::min<int64_t>(count, 16)});
  std::vector<at::Tensor> inputs;
  for (int64_t i = 0, seen = 0; i < batches.size() && seen < count; ++i) {
    inputs.push_back(batches[i].inputs);
    seen += inputs.back().size(0);
  }
  return inputs;
}

// The largest stretch that a search finds; none, with the reason said, where the model's outputs are beyond float64.
std::optional<double> observed_stretch(const Model& model, const CertifiedBound& bound, int starts,
                                       ProgressLine& line) {
  if (starts == 0 || bound.domain_radius < kLeastSearchDomain) return std::nullopt;
  try {
    const ObservedStretch found = search_stretch(
        model, {.domain = bound.domain_radius, .starts = starts, .on_progress = [&line](const Progress& p) {
                  line.show(p);
                }});
    line.clear();
    if (found.lipschitz <= bound.lipschitz.value) return found.lipschitz;
    throw PromiseError(
        "certify", fmt::format("a search found a stretch of {}, above the bound of {}: please report this",
                               found.lipschitz, bound.lipschitz.value));
  } catch (const NumericError& error) {
    line.note(fmt::format("no search: {}", error.what()));
    return std::nullopt;
  }
}

struct OnData {
  std::optional<CertifiedPredictions> predictions;
  std::optional<CertifiedBound> local;
  int64_t examples = 0;
};

OnData certify_on_data(const Flags& flags, const Model& model, const Run& run, ProgressLine& line) {
  OnData result;
  if (flags.predictions) {
    result.predictions = certify_predictions(model, open_run_split(run, Split::validation),
                                             {.epsilons = flags.epsilon,
                                              .standardised = pixel_statistics(run),
                                              .order = {.batch_size = run.options.data.batch_size}},
                                             [&line](const Progress& p) { line.show(p); });
    line.clear();
  }
  if (flags.local > 0) {
    const std::vector<at::Tensor> inputs = inputs_of(run, flags.local);
    for (const at::Tensor& batch : inputs) result.examples += batch.size(0);
    result.local = certify_near(model, neighbourhood_of(model, inputs, flags.radius));
  }
  return result;
}

void print_sound(const Flags& flags, const Certificate& certificate, const OnData& on_data,
                 const fs::path& path) {
  if (flags.json) {
    Json json = Json::parse(certificate_text(certificate));
    if (on_data.predictions) json["predictions"] = predictions_json(*on_data.predictions);
    if (on_data.local)
      json["local"] = {{"examples", on_data.examples},
                       {"radius", flags.radius},
                       {"lipschitz", on_data.local->lipschitz.value},
                       {"log10_lipschitz", on_data.local->lipschitz.log10}};
    return fmt::print("{}\n", json.dump(2));
  }
  print_certificate(certificate);
  if (on_data.local)
    fmt::print("\nwithin {} of any one of the first {} validation examples the bound is {}\n", flags.radius,
               on_data.examples, text_of(on_data.local->lipschitz));
  if (on_data.predictions) print_predictions(*on_data.predictions);
  const std::string model = flags.out.empty() ? "" : " --model " + flags.run;
  fmt::print(
      "\nwritten to {0}; check it with\n  bridle certify --check {0}{1}\n  scripts/check_certificate.py "
      "{0}{1}\n",
      path.string(), model);
}

void sound(const Flags& flags) {
  const fs::path folder = flags.run;
  StoredModel stored = model_in(folder);
  const Model& model = *stored.model;
  std::optional<Run> run;
  if (flags.predictions || flags.local > 0) run = open_run(folder, std::move(stored.model));
  ProgressLine line;
  const CertifiedBound bound = certify(model, flags.radius);
  const Certificate certificate =
      certificate_of(stored.identity, model, bound, observed_stretch(model, bound, flags.search, line));
  const fs::path path = flags.out.empty() ? folder / "certificate.json" : fs::path(flags.out);
  write_certificate(path, certificate);
  const OnData on_data = run ? certify_on_data(flags, model, *run, line) : OnData{};
  if (on_data.predictions) {
    Json facts = predictions_json(*on_data.predictions);
    facts["sha256"] = certificate.sha256;  // of the weights
    write_file(path.parent_path() / "predictions.json", facts.dump(2) + "\n");
  }
  print_sound(flags, certificate, on_data, path);
}

void certify_verb(const Flags& flags) {
  if (flags.check.empty() == flags.run.empty())
    throw UsageError("certify", "name a run's folder, or --check certificate.json");
  if (!flags.model.empty() && flags.check.empty()) throw UsageError("certify", "--model goes with --check");
  if (!flags.check.empty()) return check(flags);
  if (!flags.seal.empty()) return seal(flags);
  if (flags.lipschitz) throw UsageError("certify", "--lipschitz goes with --seal");
  if (!flags.epsilon.empty() && !flags.predictions)
    throw UsageError("certify", "--epsilon goes with --predictions");
  if (flags.local < 0 || flags.search < 0)
    throw UsageError("certify", fmt::format("--local and --search must be 0 or more, got {} and {}",
                                            flags.local, flags.search));
  switch (parse_word<ShownFormula, UsageError>(flags.formula, "certify", "--formula")) {
    case ShownFormula::sound:
      return sound(flags);
    case ShownFormula::paper:
      return paper(flags);
    case ShownFormula::lipsformer:
      return lipsformer(flags);
  }
}

}  // namespace

void add_certify(CLI::App& app) {
  CLI::App* verb =
      app.add_subcommand("certify", "Bound a model's Lipschitz constant, write the proof, check one");
  verb->footer(
      "Examples:\n"
      "  bridle certify runs/quickstart                       writes runs/quickstart/certificate.json\n"
      "  bridle certify runs/quickstart --radius 0.1          inputs may be moved by an RMS of 0.1\n"
      "  bridle certify runs/quickstart --predictions         which predictions cannot change\n"
      "  bridle certify runs/quickstart --formula paper       for comparison; not a certificate\n"
      "  bridle certify runs/quickstart --seal sealed --lipschitz 100\n"
      "  bridle certify --check runs/quickstart/certificate.json\n"
      "Exit code 3: no bound can be established, or a certificate does not hold.");
  auto flags = std::make_shared<Flags>();
  verb->add_option("run", flags->run, "A run, or any folder with config.json and model.safetensors");
  verb->add_option("--check", flags->check, "A certificate to prove again");
  verb->add_option("--model", flags->model, "With --check: the model's folder [the certificate's own]");
  verb->add_option("--formula", flags->formula, "sound; or paper, or lipsformer (not certificates)")
      ->capture_default_str();
  verb->add_option("--out", flags->out, "The certificate's file [RUN/certificate.json]");
  verb->add_option("--radius", flags->radius, "How far an input may be moved, as an RMS norm")
      ->capture_default_str();
  verb->add_option("--search", flags->search, "Starts of the search for the largest stretch; 0: none")
      ->capture_default_str();
  verb->add_option("--local", flags->local, "Also the bound within --radius of so many validation examples");
  verb->add_flag("--predictions", flags->predictions,
                 "Also the share of validation predictions that cannot change, into predictions.json");
  verb->add_option("--epsilon", flags->epsilon,
                   "With --predictions: perturbations, ℓ2 for pixels, RMS for tokens")
      ->delimiter(',');
  verb->add_option("--seal", flags->seal, "Scale weights below their caps, into this folder");
  verb->add_option("--lipschitz", flags->lipschitz, "With --seal: below this bound");
  verb->add_flag("--json", flags->json, "Print one JSON object");
  verb->callback([flags] { certify_verb(*flags); });
}

}  // namespace bridle
