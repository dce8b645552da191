// bridle serve: the page of runs, live, on this machine.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <thread>

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
  verb->add_option("folder", flags->folder, "Runs, or folders of runs")->capture_default_str();
  verb->add_option("--host", flags->options.host, "The address to bind to")->capture_default_str();
  verb->add_option("--port", flags->options.port, "0: any that is free")
      ->capture_default_str()
      ->check(CLI::Range(0, 65535));
  verb->callback([flags] { serve(*flags); });
}

}  // namespace bridle
