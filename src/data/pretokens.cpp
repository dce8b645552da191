// See pretokens.h.
#include "data/pretokens.h"

#include <utf8proc.h>

#include <cstdint>
#include <vector>

#include "data/utf8.h"

namespace bridle {
namespace {

enum class Kind : uint8_t { letter, number, space, other, unknown };

Kind kind_by_category(char32_t value) {
  switch (static_cast<int>(utf8proc_category(static_cast<utf8proc_int32_t>(value)))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
      return Kind::letter;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
      return Kind::number;
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return Kind::space;
    default:
      return (value >= 0x09 && value <= 0x0D) || value == 0xFEFF ? Kind::space : Kind::other;
  }
}

std::vector<Kind> all_kinds() {
  std::vector<Kind> kinds(0x110000);
  for (size_t value = 0; value < kinds.size(); ++value)
    kinds[value] = kind_by_category(static_cast<char32_t>(value));
  return kinds;
}

const Kind* kind_table() {
  static const std::vector<Kind> kinds = all_kinds();  // 1.1 MB, of which ordinary text touches little
  return kinds.data();
}

// The end of the run of this kind that starts at `at`.
size_t run_end(const Kind* kinds, std::string_view text, size_t at, Kind kind) {
  while (at < text.size()) {
    const CodePoint point = decode_utf8(text, at);
    if (kinds[point.value] != kind) break;
    at += point.length;
  }
  return at;
}

// The length of the contraction that `text` starts with, after its apostrophe; 0 where there is none.
size_t contraction(std::string_view text) {
  if (text.empty()) return 0;
  const char first = text[0];
  if (first == 's' || first == 't' || first == 'm' || first == 'd') return 1;
  const std::string_view two = text.substr(0, 2);
  return two == "re" || two == "ve" || two == "ll" ? 2 : 0;
}

size_t start_of_last_character(std::string_view text) {
  size_t at = text.size() - 1;
  while (at > 0 && text.size() - at < 4 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) --at;
  return at;
}

// \s+(?!\S)|\s+ : before a visible character the last space of several stays for the next pretoken.
size_t spaces_end(const Kind* kinds, std::string_view text, size_t start) {
  const size_t end = run_end(kinds, text, start, Kind::space);
  if (end == text.size()) return end;
  const size_t last = start + start_of_last_character(text.substr(start, end - start));
  return last > start ? last : end;
}

}  // namespace

size_t pretoken_end(std::string_view text, size_t start) {
  const Kind* kinds = kind_table();
  if (text[start] == '\'') {
    if (const size_t length = contraction(text.substr(start + 1)); length > 0) return start + 1 + length;
  }
  const size_t body = text[start] == ' ' && start + 1 < text.size() ? start + 1 : start;
  const CodePoint point = decode_utf8(text, body);
  const Kind kind = kinds[point.value];
  if (kind == Kind::space) return spaces_end(kinds, text, start);
  return run_end(kinds, text, body + point.length, kind);
}

// Between two characters of different kinds the first of which is no space, a pretoken ends: no match holds a space, or
// another kind, after a visible character, but for the contractions' letters after an apostrophe. The matches before
// the place are those of the part alone: they end in the same run at the end of text as at a character of another kind,
// and spaces before a visible character are followed by it in the part. A match looks at nothing before its start.
size_t last_safe_cut(std::string_view text) {
  const Kind* kinds = kind_table();
  Kind after = Kind::unknown;
  while (!text.empty()) {
    const size_t start = start_of_last_character(text);
    const CodePoint point = decode_utf8(text, start);
    const bool whole = point.length == text.size() - start;
    const Kind kind = whole ? kinds[point.value] : Kind::unknown;
    const bool may_be_contraction = point.value == '\'' && after == Kind::letter;
    const bool known = kind != Kind::unknown && after != Kind::unknown;
    if (known && kind != after && kind != Kind::space && !may_be_contraction) return text.size();
    after = kind;
    text = text.substr(0, start);
  }
  return 0;
}

}  // namespace bridle
