// bridle certify: a bound that is true, and the file that proves it.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/display.h"
#include "base/files.h"
#include "base/words.h"
#include "bound_text.h"
#include "bridle/certificate_file.h"
#include "bridle/certify.h"
#include "bridle/error.h"
#include "bridle/head_logits.h"
#include "bridle/predictions.h"
#include "bridle/run.h"
#include "certificate_text.h"
#include "progress_line.h"
#include "resources.h"
#include "verbs.h"

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
  std::string formula = "sound";
  std::string out;
  double radius = 0.0;
  int search = 6;
  int64_t local = 0;
  bool predictions = false;
  bool heads = false;
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

void print_predictions(const CertifiedPredictions& p) {
  fmt::print(
      "\n{} predictions, accuracy {}\n"
      "  exact              of the network in exact arithmetic\n"
      "  float32, bfloat16  of what LibTorch's operators compute of it in that precision, at the input and "
      "at\n"
      "                     every perturbed one\n\n",
      shown_count(p.targets), shown_percent(p.accuracy));
  fmt::print("{:<10}{:>14}{:>18}{:>18}\n", "function", p.norm == "l2" ? "ε (ℓ2)" : "ε (RMS)", "cannot change",
             "cannot and right");
  for (const CertifiedFunction& of : p.functions) {
    const auto none = [](const CertifiedShare& share) { return share.certified == 0.0; };
    const auto row = [&](const std::string& epsilon, double certified, double right) {
      fmt::print("{:<10}{:>14}{:>18}{:>18}\n", of.function, epsilon, shown_percent_lower(certified),
                 shown_percent_lower(right));
    };
    if (std::ranges::all_of(of.shares, none)) {
      row("all of these", 0.0, 0.0);
      continue;
    }
    for (const CertifiedShare& share : of.shares)
      row(shown_lower(share.epsilon), share.certified, share.certified_accuracy);
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
    fmt::print("{:<20}{}   log10 {}   without the final scale, which it forgets\n", "as its code has it",
               text_of(coded), log_text(coded.log10()));
  fmt::print(
      "{:<20}{}   log10 {}\n\n"
      "This is not a certificate: with several heads, and for GeLU, the formula is too small\n"
      "(docs/theory/modules.md).\n",
      "the paper's formula", text_of(value), log_text(value.log10()));
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
      "{:<20}{}   log10 {}\n\n"
      "This is not a certificate: it is LipsFormer's theorem 1 and equation 19 as the paper uses them, with\n"
      "the size of a head as N, without W_O and the head (docs/theory/modules.md).\n",
      "LipsFormer's formula", text_of(value), log_text(value.log10()));
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

Json heads_json(const std::vector<HeadLogit>& heads) {
  Json list = Json::array();
  for (const HeadLogit& head : heads)
    list.push_back(
        {{"layer", head.layer},
         {"head", head.head},
         {"largest_query", std::isfinite(head.query.value) ? Json(head.query.value) : Json(nullptr)},
         {"largest_key", std::isfinite(head.key.value) ? Json(head.key.value) : Json(nullptr)},
         {"largest_logit", std::isfinite(head.logit.value) ? Json(head.logit.value) : Json(nullptr)}});
  return list;
}

// A row per layer: of few heads all, of many the least and the largest.
void print_heads(const std::vector<HeadLogit>& heads) {
  constexpr size_t most = 8;
  if (heads.empty()) return fmt::print("\nthis model has no heads of attention\n");
  fmt::print("\n{:<8}largest logit of attention, head by head\n", "layer");
  for (size_t begin = 0; begin < heads.size();) {
    size_t end = begin;
    while (end < heads.size() && heads[end].layer == heads[begin].layer) ++end;
    std::string row;
    if (end - begin <= most) {
      for (size_t i = begin; i < end; ++i) row += fmt::format("{:>10}", text_of(heads[i].logit));
    } else {
      const auto [least, largest] = std::minmax_element(
          heads.begin() + static_cast<int64_t>(begin), heads.begin() + static_cast<int64_t>(end),
          [](const HeadLogit& a, const HeadLogit& b) { return a.logit.log10 < b.logit.log10; });
      row = fmt::format("  from {} (head {}) to {} (head {})", text_of(least->logit), least->head,
                        text_of(largest->logit), largest->head);
    }
    fmt::print("{:<6}{}\n", heads[begin].layer, row);
    begin = end;
  }
}

void print_sound(const Flags& flags, const Certificate& certificate, const OnData& on_data,
                 const std::optional<std::vector<HeadLogit>>& heads, const fs::path& path) {
  if (flags.json) {
    Json json = Json::parse(certificate_text(certificate));
    if (on_data.predictions) json["predictions"] = predictions_json(*on_data.predictions);
    if (on_data.local)
      json["local"] = {{"examples", on_data.examples},
                       {"radius", flags.radius},
                       {"lipschitz", on_data.local->lipschitz.value},
                       {"log10_lipschitz", on_data.local->lipschitz.log10}};
    if (heads) json["heads"] = heads_json(*heads);
    return fmt::print("{}\n", json.dump(2));
  }
  print_certificate(certificate);
  if (heads) print_heads(*heads);
  if (on_data.local)
    fmt::print("\nwithin {} of any one of the first {} validation examples the bound is {}\n",
               shown_lower(flags.radius), on_data.examples, text_of(on_data.local->lipschitz));
  if (on_data.predictions) print_predictions(*on_data.predictions);
  const std::string model = flags.out.empty() ? "" : " --model " + flags.run;
  fmt::print("\nwritten to {0}; check it with\n  bridle check {0}{1}\n  {2} {0}{1}\n", path.string(), model,
             checker_path());
}

// A run that is being trained is left alone: its next checkpoint removes the certificate, which is about other weights.
std::unique_ptr<FileLock> hold(const fs::path& folder) {
  if (!fs::is_directory(folder / "state")) return nullptr;
  return std::make_unique<FileLock>(folder / "state" / ".lock", [&folder] {
    throw InputError("certify",
                     fmt::format("{} must not be in training: its weights are about to change; wait "
                                 "for its end, or certify what it saved last with --out FILE",
                                 folder.string()));
  });
}

void sound(const Flags& flags) {
  const fs::path folder = flags.run;
  const std::unique_ptr<FileLock> lock = flags.out.empty() ? hold(folder) : nullptr;
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
  std::optional<std::vector<HeadLogit>> heads;
  if (flags.heads) heads = head_logits(model, bound);
  print_sound(flags, certificate, on_data, heads, path);
}

void certify_verb(const Flags& flags) {
  if (!flags.epsilon.empty() && !flags.predictions)
    throw UsageError("certify", "--eps needs --predictions, whose perturbations it lists");
  if (flags.local < 0)
    throw UsageError("certify", fmt::format("--local must be 0 or more, got {}", flags.local));
  if (flags.search < 0)
    throw UsageError("certify", fmt::format("--search must be 0 or more, got {}", flags.search));
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
  CLI::App* verb = app.add_subcommand("certify", "Bound a model's Lipschitz constant and write the proof");
  verb->footer(
      "Examples:\n"
      "  bridle certify runs/quickstart                       writes runs/quickstart/certificate.json\n"
      "  bridle certify runs/quickstart --radius 0.1          inputs may be moved by an RMS of 0.1\n"
      "  bridle certify runs/quickstart --predictions         which predictions cannot change\n"
      "  bridle certify runs/quickstart --formula paper       for comparison; not a certificate\n"
      "A run that is being trained is refused without --out. bridle check proves a certificate again.\n"
      "Exit code 3: no bound can be established.");
  auto flags = std::make_shared<Flags>();
  verb->add_option("run", flags->run, "A run, or any folder with config.json and model.safetensors")
      ->required()
      ->type_name("RUN");
  verb->add_option("--formula", flags->formula, "sound; or paper, or lipsformer (not certificates)")
      ->type_name("sound|paper|lipsformer")
      ->capture_default_str();
  verb->add_option("--out", flags->out, "The certificate's file [RUN/certificate.json]")->type_name("FILE");
  verb->add_option("--radius", flags->radius, "How far an input may be moved, as an RMS norm")
      ->type_name("R")
      ->capture_default_str();
  verb->add_option("--search", flags->search, "Starts of the search for the largest stretch; 0: none")
      ->type_name("N")
      ->capture_default_str();
  verb->add_option("--local", flags->local, "Also the bound within --radius of so many validation examples")
      ->type_name("N");
  verb->add_flag("--heads", flags->heads, "Also how large the logits of every head of attention can become");
  verb->add_flag("--predictions", flags->predictions,
                 "Also the share of validation predictions that cannot change, into predictions.json");
  verb->add_option("--eps,--epsilon", flags->epsilon,
                   "With --predictions: perturbations, ℓ2 for pixels, RMS for tokens")
      ->type_name("ε,…")
      ->delimiter(',');
  verb->add_flag("--json", flags->json, "Print one JSON object");
  verb->callback([flags] { certify_verb(*flags); });
}

}  // namespace bridle
