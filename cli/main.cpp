// The command line: one verb, one function; errors become one line and an exit code here and nowhere else.
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "bridle/error.h"
#include "kernels/cpu.h"
#include "verbs.h"

namespace {

int fail(int code, const char* message) {
  fmt::print(stderr, "bridle: {}\n", message);
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Bridle trains neural networks under a Lipschitz bound and certifies it."};
  app.set_version_flag("--version", "bridle " BRIDLE_VERSION);
  app.require_subcommand(1);
  bridle::add_info(app);
  try {
    bridle::use_all_cores();
    app.parse(argc, argv);
    return 0;
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  } catch (const bridle::UsageError& error) {
    return fail(2, error.what());
  } catch (const bridle::PromiseError& error) {
    return fail(3, error.what());
  } catch (const std::exception& error) {
    return fail(1, error.what());
  }
}
