// See rst.h. Read line by line: a block that is left out ends where a line is indented no further than it began.
#include "data/prose/rst.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <utility>

#include "data/prose/text.h"

namespace bridle {
namespace {

constexpr auto kNone = std::string_view::npos;

// Directives whose contents are prose.
constexpr std::array<std::string_view, 12> kKept{"note",       "warning",   "tip",      "hint",
                                                 "important",  "caution",   "danger",   "error",
                                                 "admonition", "attention", "epigraph", "topic"};

constexpr std::string_view kRoleSigns = ":+_-abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

size_t indent_of(std::string_view line) { return std::min(line.find_first_not_of(" \t"), line.size()); }

// "=====", "~~~~": one sign over and over, which underlines a heading or stands between parts.
bool is_underline(std::string_view line) {
  return line.size() >= 3 && std::ispunct(static_cast<unsigned char>(line[0])) != 0 &&
         std::ranges::all_of(line, [&](char byte) { return byte == line[0]; });
}

// "==== ====" of a simple table, "+---+" and "| a |" of a grid.
bool is_table_border(std::string_view line) {
  return line.find(' ') != kNone && line.starts_with("==") && line.find_first_not_of("= ") == kNone;
}
bool is_grid(std::string_view line) {
  return line.starts_with("+-") || line.starts_with("+=") || (line.starts_with("|") && line.ends_with("|"));
}

// ":Author: somebody"
bool is_field(std::string_view line) {
  const size_t end = line.find(':', 1);
  return line.starts_with(':') && end != kNone && end > 1 && (end + 1 == line.size() || line[end + 1] == ' ');
}

// Inline markup: each function takes what begins at the front of `rest` and gives its text, or leaves it and gives nothing.
using Taken = std::optional<std::string>;

// ``code``
Taken take_literal(std::string_view& rest) {
  const size_t end = rest.starts_with("``") ? rest.find("``", 2) : kNone;
  if (end == kNone) return std::nullopt;
  std::string text(rest.substr(2, end - 2));
  rest.remove_prefix(end + 2);
  return text;
}

// `text`, `text <target>`_, and :role:`text <target>`
Taken take_reference(std::string_view& rest) {
  size_t begin = 0;
  if (rest.starts_with(':')) begin = std::min(rest.find_first_not_of(kRoleSigns), rest.size());
  const bool opens = begin < rest.size() && rest[begin] == '`' && (begin == 0 || rest[begin - 1] == ':');
  const size_t end = opens ? rest.find('`', begin + 1) : kNone;
  if (end == kNone) return std::nullopt;
  std::string_view text = rest.substr(begin + 1, end - begin - 1);
  if (const size_t target = text.find('<'); text.ends_with('>') && target > 0) text = text.substr(0, target);
  if (text.starts_with('~') || text.starts_with('!')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  std::string taken(text);
  rest.remove_prefix(end + 1);
  while (rest.starts_with('_')) rest.remove_prefix(1);
  return taken;
}

// *emphasis* and **strong emphasis**
Taken take_emphasis(std::string_view& rest) {
  const std::string_view mark = rest.starts_with("**") ? "**" : "*";
  if (!rest.starts_with(mark) || rest.size() <= mark.size() || rest[mark.size()] == ' ') return std::nullopt;
  const size_t end = rest.find(mark, mark.size() + 1);
  if (end == kNone || rest[end - 1] == ' ') return std::nullopt;
  std::string text(rest.substr(mark.size(), end - mark.size()));
  rest.remove_prefix(end + mark.size());
  return text;
}

// [1]_, a footnote's sign
Taken take_footnote(std::string_view& rest) {
  const size_t end = rest.starts_with('[') ? rest.find("]_") : kNone;
  if (end == kNone || rest.substr(0, end).find(' ') != kNone) return std::nullopt;
  rest.remove_prefix(end + 2);
  return std::string();
}

Taken take_markup(std::string_view& rest, bool after_letter) {
  if (Taken text = take_literal(rest)) return text;
  if (Taken text = take_reference(rest)) return text;
  if (after_letter) return std::nullopt;  // 2*3*4
  if (Taken text = take_emphasis(rest)) return text;
  return take_footnote(rest);
}

std::string without_inline_markup(std::string_view rest) {
  std::string out;
  while (!rest.empty()) {
    const bool after_letter = !out.empty() && std::isalnum(static_cast<unsigned char>(out.back())) != 0;
    if (const Taken text = take_markup(rest, after_letter)) {
      out += *text;
      continue;
    }
    if (rest.starts_with('\\')) rest.remove_prefix(1);
    out += rest.substr(0, 1);
    rest.remove_prefix(std::min<size_t>(1, rest.size()));
  }
  return out;
}

class File {
 public:
  explicit File(std::string_view rst) : rest_(rst) {}

  std::string text() {
    while (!rest_.empty()) take(next_line(rest_));
    end_paragraph();
    return std::move(out_);
  }

 private:
  void take(std::string_view line) {
    const size_t indent = indent_of(line);
    line.remove_prefix(indent);
    while (line.ends_with(' ') || line.ends_with('\t')) line.remove_suffix(1);
    if (line.empty()) return blank();
    if (skip_deeper_than_ && indent > *skip_deeper_than_) return;
    skip_deeper_than_.reset();
    if (is_table_border(line)) return border();
    after_border_ = false;
    if (in_table_) return;
    if (line == ".." || line.starts_with(".. ")) return explicit_markup(line, indent);
    if (is_grid(line) || is_underline(line) || line.starts_with("__ ")) return end_paragraph();
    if (is_field(line)) return skip_below(indent);
    prose(line, indent);
  }

  // A simple table has three borders, or two without a head; an empty line after the last one ends it.
  void border() {
    end_paragraph();
    in_table_ = true;
    after_border_ = true;
  }

  void blank() {
    if (in_table_ && after_border_) in_table_ = false;
    end_paragraph();
  }

  // ".. note:: text" is kept, ".. image:: x", ".. comment" and ".. _target:" go with all that is indented below them.
  void explicit_markup(std::string_view line, size_t indent) {
    end_paragraph();
    const size_t colons = line.find("::");
    const std::string_view name = colons == kNone ? "" : line.substr(3, colons - 3);
    if (std::ranges::find(kKept, name) == kKept.end()) return skip_below(indent);
    const std::string_view rest = line.substr(colons + 2);
    prose(rest.substr(indent_of(rest)), indent);
  }

  void skip_below(size_t indent) {
    end_paragraph();
    skip_deeper_than_ = indent;
  }

  // A paragraph that ends in "::" announces code, which is indented further than the paragraph.
  void prose(std::string_view line, size_t indent) {
    if (paragraph_.empty()) indent_ = indent;
    const bool item = line.starts_with("- ") || line.starts_with("* ") || line.starts_with("#. ");
    if (item) {
      end_paragraph();
      indent_ = indent;
      line.remove_prefix(line.find(' ') + 1);
    }
    if (!paragraph_.empty()) paragraph_ += ' ';
    paragraph_ += line;
  }

  void end_paragraph() {
    if (paragraph_.ends_with("::")) {
      paragraph_.pop_back();
      skip_deeper_than_ = indent_;
    }
    const std::string text = collapse_spaces(without_inline_markup(paragraph_));
    if (text.find_first_not_of(": ") != kNone) {
      if (!out_.empty()) out_ += "\n\n";
      out_ += text;
    }
    paragraph_.clear();
  }

  std::string_view rest_;
  std::string out_, paragraph_;
  size_t indent_ = 0;                       // of the paragraph's first line
  std::optional<size_t> skip_deeper_than_;  // inside a block that is left out
  bool in_table_ = false;
  bool after_border_ = false;
};

}  // namespace

std::string text_of_rst(std::string_view rst) { return File(rst).text(); }

}  // namespace bridle
