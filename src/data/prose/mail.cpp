// See mail.h. RFC 5322 and MIME as far as mailing lists need them.
#include "data/prose/mail.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <vector>

#include "data/prose/html.h"
#include "data/prose/text.h"

namespace bridle {
namespace {

constexpr auto kNone = std::string_view::npos;
constexpr int kDeepest = 5;  // parts within parts
using Headers = std::map<std::string, std::string>;

std::string lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(),
                         [](unsigned char byte) { return static_cast<char>(std::tolower(byte)); });
  return out;
}

// Takes the headers from the front of the message: names in lower case, continued lines joined.
Headers take_headers(std::string_view& message) {
  Headers headers;
  std::string* last = nullptr;
  while (!message.empty()) {
    const std::string_view line = next_line(message);
    if (line.empty()) break;
    const size_t colon = line.find(':');
    if (line.starts_with(' ') || line.starts_with('\t')) {
      if (last != nullptr) last->append(" ").append(collapse_spaces(line));
    } else if (colon != kNone && line.substr(0, colon).find(' ') == kNone) {
      last = &headers[lower(line.substr(0, colon))];
      *last = collapse_spaces(line.substr(colon + 1));
    }
  }
  return headers;
}

std::string header(const Headers& headers, const std::string& name) {
  const auto found = headers.find(name);
  return found == headers.end() ? std::string() : found->second;
}

// `charset` of "text/plain; charset="us-ascii"; format=flowed".
std::string parameter(const std::string& value, const std::string& name) {
  const size_t at = lower(value).find(name + "=");
  if (at == kNone) return {};
  std::string_view rest = std::string_view(value).substr(at + name.size() + 1);
  if (rest.starts_with('"')) return std::string(rest.substr(1, rest.find('"', 1) - 1));
  return std::string(rest.substr(0, rest.find_first_of("; \t")));
}

int hex_digit(char digit) {
  if (digit >= '0' && digit <= '9') return digit - '0';
  const int letter = std::toupper(static_cast<unsigned char>(digit)) - 'A';
  return letter >= 0 && letter < 6 ? letter + 10 : -1;
}

std::string from_quoted_printable(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '=') {
      out += text[at];
    } else if (text.substr(at + 1).starts_with('\n')) {
      at += 1;
    } else if (text.substr(at + 1).starts_with("\r\n")) {
      at += 2;
    } else if (at + 2 < text.size() && hex_digit(text[at + 1]) >= 0 && hex_digit(text[at + 2]) >= 0) {
      out += static_cast<char>(hex_digit(text[at + 1]) * 16 + hex_digit(text[at + 2]));
      at += 2;
    } else {
      out += '=';
    }
  }
  return out;
}

std::string from_base_64(std::string_view text) {
  constexpr std::string_view signs = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  uint32_t bits = 0;
  int count = 0;
  for (const char sign : text) {
    const size_t value = signs.find(sign);
    if (value == kNone) continue;
    bits = (bits << 6 | static_cast<uint32_t>(value)) & 0xFFFFFFU;
    count += 6;
    if (count >= 8) {
      count -= 8;
      out += static_cast<char>(bits >> count & 0xFFU);
    }
  }
  return out;
}

bool is_western(const std::string& charset) {
  constexpr std::array<std::string_view, 9> known{"",           "us-ascii",    "ascii",        "utf-8",
                                                  "iso-8859-1", "iso-8859-15", "windows-1252", "unknown-8bit",
                                                  "default"};
  return std::ranges::find(known, lower(charset)) != known.end();
}

std::vector<std::string_view> parts_of(std::string_view body, const std::string& boundary) {
  std::vector<std::string_view> parts;
  const std::string mark = "--" + boundary;
  size_t begin = kNone;
  for (std::string_view rest = body; !rest.empty();) {
    const size_t at = body.size() - rest.size();
    const std::string_view line = next_line(rest);
    if (!line.starts_with(mark)) continue;
    if (begin != kNone) parts.push_back(body.substr(begin, at - begin));
    begin = body.size() - rest.size();
  }
  return parts;
}

std::optional<std::string> decoded(std::string_view message, const Headers& headers, int depth);

std::optional<std::string> first_text(const std::vector<std::string_view>& parts, int depth) {
  for (const char* wanted : {"text/plain", "multipart/", "text/html"}) {
    for (std::string_view part : parts) {
      const Headers headers = take_headers(part);
      std::string type = lower(header(headers, "content-type"));
      if (type.empty()) type = "text/plain";
      if (!type.starts_with(wanted)) continue;
      if (auto text = decoded(part, headers, depth + 1)) return text;
    }
  }
  return std::nullopt;
}

std::optional<std::string> decoded(std::string_view body, const Headers& headers, int depth) {
  const std::string type = header(headers, "content-type");
  const std::string kind = lower(type);
  if (kind.starts_with("multipart/")) {
    const std::string boundary = parameter(type, "boundary");
    if (boundary.empty() || depth >= kDeepest) return std::nullopt;
    return first_text(parts_of(body, boundary), depth);
  }
  const bool html = kind.starts_with("text/html");
  if (!(kind.empty() || html || kind.starts_with("text")) || !is_western(parameter(type, "charset")))
    return std::nullopt;
  const std::string encoding = lower(header(headers, "content-transfer-encoding"));
  std::string text = encoding == "quoted-printable" ? from_quoted_printable(body)
                     : encoding == "base64"         ? from_base_64(body)
                                                    : std::string(body);
  return html ? text_of_html(text) : text;
}

// A mailing list's own lines begin with a rule, a signature with "-- ".
bool ends_message(std::string_view line) {
  return line == "-- " || line == "--" || line.starts_with("_______________") ||
         line.starts_with("------------------------------") || line.starts_with("-----BEGIN PGP SIGNATURE") ||
         line.starts_with("-----Original Message");
}

// Without quotations, the lines that announce them, and what follows the message.
std::string own_words(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::string_view line = next_line(text);
    const size_t start = line.find_first_not_of(" \t");
    if (ends_message(line)) break;
    if (line.starts_with("-----BEGIN PGP") || line.starts_with("Hash: ")) continue;
    const bool quoted = start != kNone && (line[start] == '>' || line[start] == '|');
    const bool announces =
        line.ends_with(" wrote:") || line.ends_with(" writes:") || line.ends_with(" said:");
    if (!quoted && !announces) out += std::string(line) + "\n";
  }
  return out;
}

}  // namespace

std::optional<std::string> text_of_mail(std::string_view message) {
  const Headers headers = take_headers(message);
  const auto body = decoded(message, headers, 0);
  if (!body) return std::nullopt;
  const std::string subject = header(headers, "subject");
  const bool readable = !subject.empty() && subject.find("=?") == std::string::npos;
  return (readable ? subject + "\n\n" : std::string()) + own_words(*body);
}

}  // namespace bridle
