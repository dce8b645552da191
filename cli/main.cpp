// The command line: one verb, one function; errors become one line and an exit code here and nowhere else.
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "base/nearest.h"
#include "bridle/error.h"
#include "kernels/cpu.h"
#include "verbs.h"

namespace {

// The verb that a mistyped one was probably meant to be; empty where the first argument is a verb or a flag.
std::string likely_verb(const CLI::App& app, int argc, char** argv) {
  if (argc < 2 || argv[1][0] == '-') return "";
  std::vector<std::string> verbs;
  for (const CLI::App* verb : app.get_subcommands(nullptr)) {
    if (verb->get_name() == argv[1]) return "";
    verbs.push_back(verb->get_name());
  }
  return bridle::nearest_word(argv[1], verbs);
}

int fail(int code, const char* message) {
  fmt::print(stderr, "bridle: {}\n", message);
  return code;
}

}  // namespace

int main(int argc, char** argv) {  // NOLINT(bugprone-exception-escape): only for want of memory
  CLI::App app{"Bridle trains neural networks under a Lipschitz bound and certifies it."};
  app.set_version_flag("--version", "bridle " BRIDLE_VERSION);
  app.require_subcommand(1);
  bridle::add_data(app);
  bridle::add_info(app);
  try {
    bridle::use_all_cores();
    app.parse(argc, argv);
    return 0;
  } catch (const CLI::ParseError& error) {
    const std::string meant = likely_verb(app, argc, argv);
    if (meant.empty()) return app.exit(error) == 0 ? 0 : 2;
    return fail(2,
                fmt::format("no verb '{}'; did you mean '{}'? Try bridle --help.", argv[1], meant).c_str());
  } catch (const bridle::UsageError& error) {
    return fail(2, error.what());
  } catch (const bridle::PromiseError& error) {
    return fail(3, error.what());
  } catch (const std::exception& error) {
    return fail(1, error.what());
  }
}
