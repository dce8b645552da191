// The command line: one verb, one function; errors become one line and an exit code here and nowhere else.
#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>

#include "base/library_error.h"
#include "base/nearest.h"
#include "bridle/error.h"
#include "kernels/cpu.h"
#include "old_spellings.h"
#include "rank_launcher.h"
#include "stop_signals.h"
#include "verbs.h"

namespace {

std::vector<std::string> verbs_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* verb : app.get_subcommands(nullptr)) names.push_back(verb->get_name());
  return names;
}

std::vector<std::string> flags_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

// What the first argument that is not known was probably meant to be, as a whole sentence; empty where there is none.
std::string suggestion(const CLI::App& app, int argc, char** argv) {
  const CLI::App* at = &app;
  std::string path = "bridle";
  for (int i = 1; i < argc; ++i) {
    const std::string word = std::string(argv[i]).substr(0, std::string_view(argv[i]).find('='));
    const bool flag = word.starts_with("--");
    const std::vector<std::string> known = flag ? flags_of(*at) : verbs_of(*at);
    if (!flag && (word.starts_with('-') || known.empty())) continue;
    if (std::find(known.begin(), known.end(), word) == known.end()) {
      const std::string meant = bridle::nearest_word(word, known);
      if (meant.empty()) return "";
      return fmt::format("no {} '{}'; did you mean '{}'? Try {} --help.", flag ? "flag" : "verb", word, meant,
                         path);
    }
    if (flag) continue;
    at = at->get_subcommand(word);
    path += " " + word;
  }
  return "";
}

int fail(int code, const char* message) {
  fmt::print(stderr, "bridle: {}\n", message);
  return code;
}

// "data import": the words of the command that named a verb.
std::string operation_of(const CLI::App& app) {
  std::string words;
  for (const CLI::App* at = &app; !at->get_subcommands().empty();) {
    at = at->get_subcommands().front();
    words += (words.empty() ? "" : " ") + at->get_name();
  }
  return words.empty() ? "bridle" : words;
}

// What the library says of a value that does not fit, in Bridle's words: all such values are numbers.
std::string usage_text(const CLI::ParseError& error) {
  const std::string text = error.what(), start = "Could not convert: ", between = " = ";
  const size_t equals = text.find(between);
  if (!text.starts_with(start) || equals == std::string::npos) return text;
  return fmt::format("{} must be a number, got {}", text.substr(start.size(), equals - start.size()),
                     text.substr(equals + between.size()));
}

// Help and version end here too, with 0.
int report_usage(const CLI::App& app, const CLI::ParseError& error, int argc, char** argv) {
  if (error.get_exit_code() == 0) return app.exit(error);
  std::string text = suggestion(app, argc, argv);
  const std::string verb = operation_of(app);
  if (text.empty())
    text = fmt::format("{}. Try {} --help.", usage_text(error), verb == "bridle" ? verb : "bridle " + verb);
  return fail(2, text.c_str());
}

// Of the exception that is being handled.
int report_error(const std::string& operation) {
  try {
    bridle::rethrow_translated(operation);
  } catch (const bridle::UsageError& error) {
    return fail(2, error.what());
  } catch (const bridle::PromiseError& error) {
    return fail(3, error.what());
  } catch (const bridle::RankError& error) {
    return fail(4, error.what());
  } catch (const bridle::Error& error) {
    return fail(1, error.what());
  }
}

}  // namespace

int main(int argc, char** argv) {  // NOLINT(bugprone-exception-escape): only for want of memory
  CLI::App app{"Bridle trains neural networks under a Lipschitz bound and certifies it."};
  try {
    bridle::add_verbs(app);
    const std::string now = bridle::new_spelling({argv + 1, argv + argc});
    if (!now.empty()) return fail(2, now.c_str());
    bridle::use_all_cores();
    bridle::keep_freed_memory();
    app.parse(argc, argv);
    if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0)
      return fail(1, "[write] standard output: not everything could be written");
    return 0;
  } catch (const bridle::StoppedBySignal& stopped) {
    std::fflush(stdout);
    return stopped.exit_code;
  } catch (const bridle::EndedWith& ended) {
    return ended.exit_code;
  } catch (const CLI::ParseError& error) {
    return report_usage(app, error, argc, argv);
  } catch (...) {
    return report_error(operation_of(app));
  }
}
