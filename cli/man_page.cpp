// See man_page.h.
#include "man_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <sstream>

namespace bridle {
namespace {

// Hyphens stay hyphens that can be copied; a dot or a quote at the beginning of a line is no request.
std::string escaped(const std::string& text) {
  std::string out = !text.empty() && (text.front() == '.' || text.front() == '\'') ? "\\&" : "";
  for (const char letter : text) {
    if (letter == '\\')
      out += "\\e";
    else if (letter == '-')
      out += "\\-";
    else
      out += letter;
  }
  return out;
}

std::string bold(const std::string& text) { return "\\fB" + escaped(text) + "\\fR"; }
std::string italic(const std::string& text) { return "\\fI" + escaped(text) + "\\fR"; }

std::string synopsis(const Command& command) {
  std::string text = ".B " + escaped(joined(command.path, " ")) + "\n";
  text += command.verbs.empty() ? fmt::format("[{}]", italic("OPTIONS")) : italic("VERB") + " ...";
  for (const CommandOption& option : command.options) {
    if (!option.positional) continue;
    const std::string name = italic(option.names.front());
    text += option.required ? " " + name : " [" + name + "]";
  }
  return text + "\n";
}

std::string entry(const std::string& head, const std::string& about) {
  return ".TP\n" + head + "\n" + escaped(about) + "\n";
}

std::string options(const Command& command) {
  std::string text;
  for (const CommandOption& option : command.options) {
    std::string head;
    for (const std::string& name : option.names)
      head += (head.empty() ? "" : ", ") + (option.positional ? italic(name) : bold(name));
    if (!option.positional && !option.type.empty()) head += fmt::format(" {}", italic(option.type));
    const bool shows_standard = !option.standard.empty() && option.kind != ValueKind::none;
    text += entry(head, option.about + (shows_standard ? " [" + option.standard + "]" : ""));
  }
  return text.empty() ? text : ".SH OPTIONS\n" + text;
}

std::string verbs(const Command& command) {
  std::string text;
  for (const Command& verb : command.verbs) text += entry(bold(verb.path.back()), verb.about);
  return text.empty() ? text : ".SH VERBS\n" + text;
}

// What --help says last: notes, "Examples:" with lines that begin with two spaces, and "Exit code(s) …".
std::string footer(const std::string& text) {
  std::string notes, examples, codes;
  std::istringstream lines(text);
  std::string* section = &notes;
  for (std::string line; std::getline(lines, line);) {
    if (line == "Examples:") continue;
    if (line.starts_with("  ")) {
      examples += escaped(line.substr(2)) + "\n";
      continue;
    }
    if (line.starts_with("Exit code")) section = &codes;
    *section += escaped(line) + "\n";
  }
  std::string page;
  if (!notes.empty()) page += ".SH NOTES\n" + notes;
  if (!examples.empty()) page += ".SH EXAMPLES\n.nf\n" + examples + ".fi\n";
  if (!codes.empty()) page += ".SH \"EXIT STATUS\"\n" + codes;
  return page;
}

std::string see_also(const Command& command) {
  std::vector<std::string> names;
  std::vector<std::string> above = command.path;
  above.pop_back();
  if (!above.empty()) names.push_back(joined(above, "-"));
  for (const Command& verb : command.verbs) names.push_back(man_page_name(verb));
  std::string text;
  for (const std::string& name : names) text += fmt::format("{}{}(1)", text.empty() ? "" : ",\n", bold(name));
  return text.empty() ? text : ".SH \"SEE ALSO\"\n" + text + "\n";
}

}  // namespace

std::string man_page_name(const Command& command) { return joined(command.path, "-"); }

std::string man_page(const Command& command, const std::string& version) {
  const std::string name = man_page_name(command);
  std::string title = name;
  std::transform(title.begin(), title.end(), title.begin(), [](unsigned char c) { return std::toupper(c); });
  return fmt::format(
             "'\\\" -*- coding: UTF-8 -*-\n.TH {} 1 \"\" \"{}\" \"Bridle\"\n.SH NAME\n{} \\- {}\n.SH "
             "SYNOPSIS\n",
             escaped(title), version, escaped(name), escaped(command.about)) +
         synopsis(command) + verbs(command) + options(command) + footer(command.footer) + see_also(command);
}

}  // namespace bridle
