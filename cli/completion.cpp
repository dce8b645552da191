// See completion.h. Each script finds the verb that the words so far name, and offers its verbs, flags and values.
#include "completion.h"

#include <fmt/format.h>

#include <algorithm>

#include "resources.h"

namespace bridle {
namespace {

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (size_t place = 0; (place = text.find(from, place)) != std::string::npos; place += to.size())
    text.replace(place, from.size(), to);
  return text;
}

// 'text' for all three shells; fish takes \' inside quotes, the others do not.
std::string quoted(const std::string& text) { return fmt::format("'{}'", replaced(text, "'", "'\\''")); }
std::string fish_quoted(const std::string& text) {
  return fmt::format("'{}'", replaced(replaced(text, "\\", "\\\\"), "'", "\\'"));
}

std::vector<std::string> flag_names(const Command& command) {
  std::vector<std::string> names;
  for (const CommandOption& option : command.options)
    if (!option.positional) names.insert(names.end(), option.names.begin(), option.names.end());
  return names;
}

std::vector<std::string> verb_names(const Command& command) {
  std::vector<std::string> names;
  for (const Command& verb : command.verbs) names.push_back(verb.path.back());
  return names;
}

std::string words_of(const CommandOption& option) {
  return joined(option.kind == ValueKind::recipe ? recipe_names() : option.words, " ");
}

// ---- bash

std::string compgen(const CommandOption& option) {
  const auto call = [](const std::string& what) { return fmt::format("$(compgen {} -- \"$cur\")", what); };
  switch (option.kind) {
    case ValueKind::none:
    case ValueKind::text:
      return "";
    case ValueKind::words:
      return call(fmt::format("-W {}", quoted(words_of(option))));
    case ValueKind::file:
      return call("-f");
    case ValueKind::folder:
      return call("-d");
    case ValueKind::recipe:
      return call(fmt::format("-W {}", quoted(words_of(option)))) + " " + call("-f");
  }
  return "";
}

std::string bash_values(const Command& command, const std::string& path) {
  std::string text;
  for (const CommandOption& option : command.options) {
    if (option.positional || option.kind == ValueKind::none) continue;
    std::string pattern;
    for (const std::string& name : option.names)
      pattern += fmt::format("{}'{} {}'", pattern.empty() ? "" : " | ", path, name);
    text += fmt::format("    {}) COMPREPLY=({}); return ;;\n", pattern, compgen(option));
  }
  return text;
}

std::string bash_words(const Command& command, const std::string& path) {
  std::string replies;
  if (!command.verbs.empty())
    replies = fmt::format("$(compgen -W {} -- \"$cur\")", quoted(joined(verb_names(command), " ")));
  for (const CommandOption& option : command.options)
    if (option.positional && replies.empty()) replies = compgen(option);
  return fmt::format("    '{}')\n      flags={}\n      [[ $cur == -* ]] || COMPREPLY=({}) ;;\n", path,
                     quoted(joined(flag_names(command), " ")), replies);
}

// ---- zsh

std::string zsh_function(const Command& command) { return fmt::format("_{}", joined(command.path, "_")); }

std::string zsh_action(const CommandOption& option) {
  switch (option.kind) {
    case ValueKind::none:
      return "";
    case ValueKind::text:
      return " ";
    case ValueKind::words:
      return fmt::format("({})", words_of(option));
    case ValueKind::file:
      return "_files";
    case ValueKind::folder:
      return "_files -/";
    case ValueKind::recipe:
      return fmt::format("{{compadd -- {}; _files}}", words_of(option));
  }
  return "";
}

// Brackets, colons and backslashes have a meaning to _arguments.
std::string zsh_about(const std::string& text) {
  std::string safe = replaced(text, "\\", "\\\\");
  for (const char* letter : {"[", "]", ":"}) safe = replaced(safe, letter, std::string("\\") + letter);
  return safe;
}

std::string zsh_leaf(const Command& command) {
  std::string text = fmt::format("{}() {{\n  _arguments", zsh_function(command));
  int place = 0;
  for (const CommandOption& option : command.options) {
    const std::string value = option.kind == ValueKind::none
                                  ? ""
                                  : fmt::format(":{}:{}", zsh_about(option.type), zsh_action(option));
    if (option.positional) text += " \\\n    " + quoted(fmt::format("{}{}", ++place, value));
    for (const std::string& name : option.positional ? std::vector<std::string>{} : option.names)
      text += " \\\n    " + quoted(fmt::format("{}[{}]{}", name, zsh_about(option.about), value));
  }
  return text + "\n}\n\n";
}

std::string zsh_branch(const Command& command) {
  std::string text = fmt::format("{}() {{\n  if (( CURRENT == 2 )); then\n    local -a verbs\n    verbs=(",
                                 zsh_function(command));
  for (const Command& verb : command.verbs) text += "\n      " + quoted(verb.path.back() + ":" + verb.about);
  text += fmt::format(")\n    _describe verb verbs\n    compadd -- {}\n    return\n  fi\n",
                      joined(flag_names(command), " "));
  text += "  shift words\n  (( CURRENT-- ))\n  case $words[1] in\n";
  for (const Command& verb : command.verbs)
    text += fmt::format("    {}) {} ;;\n", verb.path.back(), zsh_function(verb));
  return text + "  esac\n}\n\n";
}

// ---- fish

std::string fish_condition(const Command& command) {
  std::string text;
  for (size_t i = 1; i < command.path.size(); ++i)
    text += (i == 1 ? "" : "; and ") + ("__fish_seen_subcommand_from " + command.path[i]);
  if (command.path.size() == 1) return "__fish_use_subcommand";
  if (!command.verbs.empty())
    text += "; and not __fish_seen_subcommand_from " + joined(verb_names(command), " ");
  return text;
}

std::string fish_value(const CommandOption& option) {
  switch (option.kind) {
    case ValueKind::none:
      return "";
    case ValueKind::text:
      return " -x";
    case ValueKind::words:
      return " -x -a " + fish_quoted(words_of(option));
    case ValueKind::file:
      return " -r -F";
    case ValueKind::folder:
      return " -x -a '(__fish_complete_directories)'";
    case ValueKind::recipe:
      return " -r -F -a " + fish_quoted(words_of(option));
  }
  return "";
}

std::string fish_lines(const Command& command) {
  const std::string start = fmt::format("complete -c bridle -n {}", fish_quoted(fish_condition(command)));
  std::string text;
  for (const Command& verb : command.verbs)
    text += fmt::format("{} -a {} -d {}\n", start, verb.path.back(), fish_quoted(verb.about));
  for (const CommandOption& option : command.options) {
    const std::string about = " -d " + fish_quoted(option.about);
    std::string value = fish_value(option);
    if (!option.positional) {
      for (const std::string& name : option.names)
        text += start + (name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1)) + value +
                about + "\n";
    } else if (option.kind != ValueKind::text) {
      value = replaced(replaced(value, " -r", ""), " -x", "");
      text += start + value + "\n";
    }
  }
  return text;
}

}  // namespace

std::string bash_completion(const Command& tree) {
  std::string paths, values, words;
  for (const Command* command : all_commands(tree)) {
    const std::string path = joined(command->path, "/");
    if (command != &tree) paths += (paths.empty() ? "" : " | ") + path;
    values += bash_values(*command, path);
    words += bash_words(*command, path);
  }
  return fmt::format(
      "# bash completion for bridle\n"
      "_bridle() {{\n"
      "  local cur=${{COMP_WORDS[COMP_CWORD]}} verb=bridle flags= i\n"
      "  COMPREPLY=()\n"
      "  for ((i = 1; i < COMP_CWORD; ++i)); do\n"
      "    case \"$verb/${{COMP_WORDS[i]}}\" in\n"
      "      {}) verb=$verb/${{COMP_WORDS[i]}} ;;\n"
      "    esac\n"
      "  done\n"
      "  case \"$verb ${{COMP_WORDS[COMP_CWORD - 1]}}\" in\n{}  esac\n"
      "  case $verb in\n{}  esac\n"
      "  [[ $cur != -* ]] || COMPREPLY=($(compgen -W \"$flags\" -- \"$cur\"))\n"
      "}}\n"
      "complete -o filenames -F _bridle bridle\n",
      paths, values, words);
}

std::string zsh_completion(const Command& tree) {
  std::string text = "#compdef bridle\n\n";
  for (const Command* command : all_commands(tree))
    text += command->verbs.empty() ? zsh_leaf(*command) : zsh_branch(*command);
  return text + "_bridle \"$@\"\n";
}

std::string fish_completion(const Command& tree) {
  std::string text = "# fish completion for bridle\ncomplete -c bridle -f\n";
  for (const Command* command : all_commands(tree)) text += fish_lines(*command);
  return text;
}

}  // namespace bridle
