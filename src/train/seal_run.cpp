// Seals the model of a run, or of a bare folder, into another folder, and certifies it there.
#include <fmt/format.h>
#include <unistd.h>

#include <cmath>

#include "base/files.h"
#include "bridle/error.h"
#include "bridle/run.h"
#include "certify/seal_model.h"
#include "io/certificate_file.h"
#include "io/model_folder.h"
#include "train/constraint_set.h"
#include "train/options.h"

namespace bridle {
namespace {

namespace fs = std::filesystem;

double loss_of(const Run& run, const std::shared_ptr<const Source>& split) {
  return evaluate(*run.model, split, {.order = {.batch_size = run.options.data.batch_size}}).loss;
}

// A folder with a model alone.
Run bare_run(const fs::path& folder) {
  Run run;
  run.folder = folder;
  run.model = read_model(folder).model;
  return run;
}

// The validation split, where it is a run and its data is here.
std::shared_ptr<const Source> split_of(const Run& run, bool is_run, std::string& trouble) {
  if (!is_run) {
    trouble = "the folder is not a run, so its data is not known";
    return nullptr;
  }
  try {
    return open_run_split(run, Split::validation);
  } catch (const InputError& error) {
    trouble = error.what();
    return nullptr;
  }
}

// All files, or nothing.
void write_sealed(const Run& run, const CertifiedBound& bound, const fs::path& out) {
  const fs::path place =
      fs::absolute(out / "").lexically_normal().parent_path();  // without a slash at its end
  const fs::path fresh =
      place.parent_path() / fmt::format(".{}.{}.new", place.filename().string(), ::getpid());
  make_folder(fresh);
  try {
    const ModelIdentity sealed = write_model(*run.model, fresh, certificate_metadata(bound));
    write_certificate(fresh / "certificate.json", certificate_of(sealed, *run.model, bound));
    for (const char* name : {"config.toml", "vocab.json", "merges.txt", "statistics.json"})
      if (fs::exists(run.folder / name)) fs::copy_file(run.folder / name, fresh / name);
    publish(fresh, place);
  } catch (const std::exception&) {
    std::error_code ignored;
    fs::remove_all(fresh, ignored);
    throw;
  }
}

}  // namespace

SealResult seal_run(const fs::path& folder, const fs::path& out, std::optional<double> lipschitz) {
  const bool is_run = fs::exists(folder / "config.toml");
  if (fs::exists(out) && !(fs::is_directory(out) && fs::is_empty(out)))
    throw InputError("seal",
                     fmt::format("--out must be missing or empty, and {} is there already", out.string()));
  const Run run = is_run ? open_run(folder) : bare_run(folder);
  ConstraintSettings settings = run.options.constraint;
  if (lipschitz && !(*lipschitz > 0.0 && std::isfinite(*lipschitz)))
    throw InputError("seal", fmt::format("--lipschitz must be positive, got {}", *lipschitz));
  const double own = settings.formula == BoundFormula::sound ? settings.lipschitz : 0.0;
  const double budget = lipschitz.value_or(own);
  if (!is_run) settings.heads = HeadBlocks::kv;
  if (!is_run && budget == 0.0)
    throw InputError("seal", fmt::format("{} is not a run, so it has no caps; name a bound with --lipschitz",
                                         folder.string()));
  if (is_run && budget == 0.0 && settings.lipschitz != 0.0)
    throw InputError(
        "seal",
        fmt::format("{} was trained under the paper's formula, which is no bound; name one with --lipschitz",
                    folder.string()));
  if (is_run && budget == 0.0 && !make_constraint(settings.options)->uses_cap())
    throw InputError("seal",
                     fmt::format("constraint.method = '{}' of {} has no caps; name a bound with --lipschitz",
                                 settings.options.method, folder.string()));
  const ConstraintSet constraints(run.model->params(), settings);
  const std::vector<double> caps =
      budget > 0.0 ? caps_within(*run.model, constraints.params(), budget) : constraints.caps();
  SealResult result;
  const auto split = split_of(run, is_run, result.no_loss);
  if (split) result.loss_before = loss_of(run, split);
  result.changed = seal_model_(constraints.params(), caps);
  result.bound = certify(*run.model);
  // What is stated has room for rounding above what was sealed: once or twice a little more.
  for (double target = budget; budget > 0.0 && result.bound.lipschitz.value > budget;) {
    target *= budget / result.bound.lipschitz.value * (1.0 - 1e-9);
    seal_model_(constraints.params(), caps_within(*run.model, constraints.params(), target));
    result.bound = certify(*run.model);
  }
  if (split) result.loss_after = result.changed.empty() ? result.loss_before : loss_of(run, split);
  write_sealed(run, result.bound, out);
  return result;
}

}  // namespace bridle
