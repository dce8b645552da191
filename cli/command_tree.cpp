// See command_tree.h.
#include "command_tree.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>

namespace bridle {
namespace {

std::vector<std::string> words_of(const std::string& type) {
  std::vector<std::string> words;
  for (size_t start = 0; start <= type.size();) {
    const size_t end = std::min(type.find('|', start), type.size());
    words.push_back(type.substr(start, end - start));
    start = end + 1;
  }
  return words;
}

ValueKind kind_of(const std::string& type) {
  if (type.empty()) return ValueKind::none;
  if (type == "FILE" || type == "PATH" || type == "SWEEP.toml") return ValueKind::file;
  if (type == "RUN" || type == "DIR") return ValueKind::folder;
  if (type == "RECIPE") return ValueKind::recipe;
  const bool lower = std::none_of(type.begin(), type.end(), [](char c) { return c >= 'A' && c <= 'Z'; });
  const bool ascii = std::all_of(type.begin(), type.end(), [](char c) { return c > 0; });
  return lower && ascii ? ValueKind::words : ValueKind::text;
}

CommandOption option_of(const CLI::Option& from) {
  CommandOption option;
  option.positional = from.get_positional();
  if (option.positional) option.names.push_back(from.get_name(/*positional=*/true));
  for (const std::string& name : from.get_snames()) option.names.push_back("-" + name);
  for (const std::string& name : from.get_lnames()) option.names.push_back("--" + name);
  const bool valued = from.get_items_expected_max() > 0;
  option.type = valued ? from.get_type_name() : "";
  option.about = from.get_description();
  option.standard = from.get_default_str();
  option.required = from.get_required();
  option.kind = kind_of(option.type);
  if (option.kind == ValueKind::words) option.words = words_of(option.type);
  return option;
}

Command command_of(const CLI::App& app, std::vector<std::string> path) {
  Command command;
  command.path = path;
  command.about = app.get_description();
  command.footer = app.get_footer();
  for (const CLI::Option* option : app.get_options())
    if (!option->get_group().empty()) command.options.push_back(option_of(*option));
  for (const CLI::App* verb : app.get_subcommands(nullptr)) {
    if (verb->get_group().empty()) continue;
    std::vector<std::string> longer = path;
    longer.push_back(verb->get_name());
    command.verbs.push_back(command_of(*verb, std::move(longer)));
  }
  return command;
}

}  // namespace

Command command_tree(const CLI::App& app) { return command_of(app, {"bridle"}); }

std::vector<const Command*> all_commands(const Command& command) {
  std::vector<const Command*> all{&command};
  for (const Command& verb : command.verbs)
    for (const Command* below : all_commands(verb)) all.push_back(below);
  return all;
}

std::string joined(const std::vector<std::string>& words, const char* between) {
  return fmt::format("{}", fmt::join(words, between));
}

}  // namespace bridle
