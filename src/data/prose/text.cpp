// See text.h.
#include "data/prose/text.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <span>

#include "base/checksum.h"
#include "data/utf8.h"

namespace bridle {
namespace {

// What Windows-1252 has where ISO 8859-1 has control characters; 0: nothing.
constexpr std::array<char32_t, 32> kWindows{0x20AC, 0,      0x201A, 0x0192, 0x201E, 0x2026, 0x2020, 0x2021,
                                            0x02C6, 0x2030, 0x0160, 0x2039, 0x0152, 0,      0x017D, 0,
                                            0,      0x2018, 0x2019, 0x201C, 0x201D, 0x2022, 0x2013, 0x2014,
                                            0x02DC, 0x2122, 0x0161, 0x203A, 0x0153, 0,      0x017E, 0x0178};

char32_t windows(char32_t value) { return value >= 0x80 && value < 0xA0 ? kWindows.at(value - 0x80) : value; }

bool is_invisible(char32_t value) {
  return (value < 0x20 && value != '\n' && value != '\t') || value == 0x7F || value == 0xAD ||
         (value >= 0x200B && value <= 0x200F) || (value >= 0x202A && value <= 0x202E) ||
         (value >= 0x2060 && value <= 0x2064) || value == 0xFEFF;
}

bool is_blank(char byte) { return byte == ' ' || byte == '\t'; }

// Appends the line's visible characters; tabs and no-break spaces become spaces.
void append_visible(std::string_view line, std::string& out) {
  for (size_t at = 0; at < line.size();) {
    const CodePoint point = decode_utf8(line, at);
    at += point.length;
    if (is_invisible(point.value)) continue;
    append_utf8(point.value == '\t' || point.value == 0xA0 ? U' ' : point.value, out);
  }
}

}  // namespace

std::string from_windows_1252(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) {
    const char32_t value = windows(static_cast<unsigned char>(byte));
    if (value != 0) append_utf8(value, text);
  }
  return text;
}

std::optional<std::string> repair_encoding(std::string_view bytes) {
  if (bytes.find('\0') != std::string_view::npos) return std::nullopt;
  if (find_invalid_utf8(bytes) != bytes.size()) return from_windows_1252(bytes);
  std::string text;
  for (size_t at = 0; at < bytes.size();) {
    const CodePoint point = decode_utf8(bytes, at);
    if (point.value == 0xFFFD) return std::nullopt;
    if (const char32_t value = windows(point.value); value != 0) append_utf8(value, text);
    at += point.length;
  }
  return text;
}

std::string_view next_line(std::string_view& rest) {
  const size_t end = rest.find('\n');
  std::string_view line = rest.substr(0, end);
  rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

std::string tidy(std::string_view text) {
  std::string out;
  int empty_lines = 2;  // none at the beginning
  while (!text.empty()) {
    const size_t start = out.size();
    append_visible(next_line(text), out);
    while (out.size() > start && is_blank(out.back())) out.pop_back();
    empty_lines = out.size() == start ? empty_lines + 1 : 0;
    if (empty_lines <= 1) out += '\n';
  }
  while (!out.empty() && out.back() == '\n') out.pop_back();
  return out.substr(std::min(out.find_first_not_of(' '), out.size()));
}

std::string collapse_spaces(std::string_view text) {
  std::string out;
  for (const char byte : text) {
    const bool space = is_blank(byte) || byte == '\n' || byte == '\r';
    if (!space)
      out += byte;
    else if (!out.empty() && out.back() != ' ')
      out += ' ';
  }
  if (out.ends_with(' ')) out.pop_back();
  return out;
}

bool is_prose(std::string_view text) {
  const auto counts = [](unsigned char byte) { return std::isalpha(byte) != 0 || std::isspace(byte) != 0; };
  const auto count = static_cast<size_t>(std::count_if(text.begin(), text.end(), counts));
  return !text.empty() && count * 10 >= text.size() * 7;
}

std::string fingerprint(std::string_view text) {
  std::string letters;
  for (const char byte : text) {
    const auto value = static_cast<unsigned char>(byte);
    if (value >= 0x80 || std::isalnum(value) != 0) letters += static_cast<char>(std::tolower(value));
  }
  Sha256 sum;
  sum.update(std::as_bytes(std::span(letters)));
  return sum.digest();
}

}  // namespace bridle
