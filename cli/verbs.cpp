// All verbs, in the order in which --help lists them.
#include "verbs.h"

#include <CLI/CLI.hpp>

#include "version.h"

namespace bridle {

void add_verbs(CLI::App& app) {
  app.set_version_flag("--version", version_text());
  app.require_subcommand(1);
  app.footer(
      "bridle VERB --help shows examples. Data sets are kept in $BRIDLE_DATA [~/.cache/bridle].\n"
      "Exit codes: 0 done; 1 an error; 2 wrong usage; 3 a certificate does not hold, or a promised bound "
      "could\n"
      "not be kept; 4 one of several processes that train together was lost; 129, 130, 143: a signal ended "
      "it.");
  add_data(app);
  add_train(app);
  add_plan(app);
  add_eval(app);
  add_certify(app);
  add_check(app);
  add_seal(app);
  add_import(app);
  add_quantize(app);
  add_export(app);
  add_attack(app);
  add_sample(app);
  add_info(app);
  add_sweep(app);
  add_compare(app);
  add_report(app);
  add_serve(app);
  add_bench(app);
  add_generate(app);
}

}  // namespace bridle
