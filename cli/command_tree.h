// The command line as plain data, read from CLI11's tree: what completions and manual pages are made of, as --help is.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace bridle {

enum class ValueKind { none, text, words, file, folder, recipe };

struct CommandOption {
  std::vector<std::string> names;  // "--out"; of a positional the name that help shows
  std::string type;                // "DIR"; empty for a switch
  std::string about;
  std::string standard;            // its default, where help shows one
  std::vector<std::string> words;  // all that it may be, for ValueKind::words
  ValueKind kind = ValueKind::none;
  bool positional = false;
  bool required = false;
};

struct Command {
  std::vector<std::string> path;  // {"bridle", "data", "get"}
  std::string about;
  std::string footer;
  std::vector<CommandOption> options;
  std::vector<Command> verbs;
};

// Without what is hidden.
Command command_tree(const CLI::App& app);

// The command and all below it, itself first.
std::vector<const Command*> all_commands(const Command& command);

std::string joined(const std::vector<std::string>& words, const char* between);

}  // namespace bridle
