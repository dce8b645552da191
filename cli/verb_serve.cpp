// bridle serve: the page of runs, live, on this machine.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <thread>

#include "bridle/error.h"
#include "bridle/report.h"
#include "bridle/serve.h"
#include "stop_signals.h"
#include "verbs.h"

namespace bridle {
namespace {

struct Flags {
  std::string folder = "runs";
  ServeOptions options;
};

void serve(const Flags& flags) {
  if (flags.options.port < 0 || flags.options.port > 65535)
    throw UsageError("serve", fmt::format("--port must be from 0 to 65535, got {}", flags.options.port));
  ReportServer server(flags.folder, report_template("/proc/self/exe"), flags.options);
  stop_on_signals(/*second_ends=*/true);
  fmt::print("http://{}:{}/ shows the runs in {}; Ctrl-C ends it\n", flags.options.host, server.port(),
             flags.folder);
  std::fflush(stdout);
  std::exception_ptr failure;
  std::thread answering([&] {
    try {
      server.run();
    } catch (...) {
      failure = std::current_exception();
      stop_requested = true;
    }
  });
  while (!stop_requested) std::this_thread::sleep_for(std::chrono::milliseconds(100));
  server.stop();
  answering.join();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace

void add_serve(CLI::App& app) {
  CLI::App* verb = app.add_subcommand("serve", "The page of runs, live, in a browser on this machine");
  verb->footer(
      "Examples:\n"
      "  bridle serve                       the runs in runs/, at http://127.0.0.1:8420/\n"
      "  bridle serve runs/sweeps --port 0  at any free port\n"
      "It answers this machine alone unless --host says otherwise: it has no passwords.");
  auto flags = std::make_shared<Flags>();
  verb->add_option("folder", flags->folder, "Runs, or folders of runs")
      ->type_name("DIR")
      ->capture_default_str();
  verb->add_option("--host", flags->options.host, "The address to bind to")
      ->type_name("HOST")
      ->capture_default_str();
  verb->add_option("--port", flags->options.port, "0: any that is free")
      ->type_name("N")
      ->capture_default_str();
  verb->callback([flags] { serve(*flags); });
}

}  // namespace bridle
