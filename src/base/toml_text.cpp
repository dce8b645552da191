#include "base/toml_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/files.h"
#include "bridle/error.h"

namespace bridle {
namespace {

// Walks over the text, past strings and comments, and counts how deep keys and values go. It may count text that is not TOML
// wrongly, behind the place where the parser stops.
class Depth {
 public:
  Depth(std::string_view text, const char* operation, const std::string& origin)
      : text_(text), operation_(operation), origin_(origin) {}

  void check() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '"' || c == '\'') {
        skip_string(c);
        continue;
      }
      if (c == '#')
        skip_comment();
      else
        count(c);
      ++at_;
    }
  }

 private:
  void count(char c) {
    if (c == '.' && ++dots_ >= kTomlMostKeyParts)
      refuse(fmt::format("a key has more than {} parts", kTomlMostKeyParts));
    if (c == '=' || c == ',' || c == '[' || c == ']' || c == '{' || c == '}' || c == '\n') dots_ = 0;
    if ((c == '[' || c == '{') && ++nested_ > kTomlMostNested)
      refuse(fmt::format("more than {} arrays and tables are inside one another", kTomlMostNested));
    if (c == ']' || c == '}') nested_ = std::max(0, nested_ - 1);
  }

  // The place of the next character to look at, before the end of the line.
  void skip_comment() { at_ = std::min(text_.find('\n', at_), text_.size()) - 1; }

  // Past the closing quotes. Three quotes begin a string of several lines, which may end with two quotes of its own.
  void skip_string(char quote) {
    const std::string three(3, quote);
    const bool lines = text_.substr(at_).starts_with(three);
    at_ += lines ? 3 : 1;
    for (; at_ < text_.size(); ++at_) {
      if (text_[at_] == '\\' && quote == '"') {
        ++at_;
      } else if (lines ? text_.substr(at_).starts_with(three) : text_[at_] == quote) {
        at_ += lines ? 3 : 1;
        for (int own = 0; lines && own < 2 && at_ < text_.size() && text_[at_] == quote; ++own) ++at_;
        return;
      } else if (!lines && text_[at_] == '\n') {
        return;  // the parser stops here
      }
    }
  }

  [[noreturn]] void refuse(const std::string& what) const {
    const auto line = 1 + std::count(text_.begin(), text_.begin() + static_cast<std::ptrdiff_t>(at_), '\n');
    throw InputError(operation_, fmt::format("{}, line {}: {}", origin_, line, what));
  }

  std::string_view text_;
  const char* operation_;
  const std::string& origin_;
  size_t at_ = 0;
  int dots_ = 0;
  int nested_ = 0;
};

std::string line_of(std::string_view text, size_t number) {
  for (size_t i = 1; i < number; ++i) text.remove_prefix(std::min(text.find('\n') + 1, text.size()));
  constexpr size_t longest = 80;
  return std::string(text.substr(0, std::min(text.find('\n'), longest)));
}

}  // namespace

toml::table parse_toml(std::string_view text, const char* operation, const std::string& origin) {
  if (text.size() > kTomlLargestText)
    throw InputError(operation, fmt::format("{} has {} bytes; at most {} are read", origin, text.size(),
                                            kTomlLargestText));
  Depth(text, operation, origin).check();
  try {
    return toml::parse(text);
  } catch (const toml::parse_error& error) {
    const bool twice = error.description().find("redefine") != std::string_view::npos;
    const size_t line = error.source().begin.line;
    throw InputError(operation, fmt::format("{}, line {}: {}: {}", origin, line,
                                            twice ? "a key or table comes twice" : "this is not TOML",
                                            line_of(text, line)));
  }
}

toml::table parse_toml_file(const std::filesystem::path& path, const char* operation) {
  return parse_toml(MappedFile(path).text(), operation, path.string());
}

}  // namespace bridle
