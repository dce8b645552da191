// See utf8.h. The ranges are those of table 3-7 of the Unicode Standard.
#include "data/utf8.h"

#include <fmt/format.h>

#include <cstdint>
#include <cstring>

#include "bridle/error.h"

namespace bridle {
namespace {

size_t length_by_lead(unsigned char lead) {
  if (lead >= 0xC2 && lead <= 0xDF) return 2;
  if (lead >= 0xE0 && lead <= 0xEF) return 3;
  if (lead >= 0xF0 && lead <= 0xF4) return 4;
  return 0;  // a continuation byte, an overlong form, or above U+10FFFF
}

}  // namespace

CodePoint decode_multibyte_utf8(std::string_view text, size_t at) {
  const auto lead = static_cast<unsigned char>(text[at]);
  const size_t length = length_by_lead(lead);
  if (length == 0 || text.size() - at < length) return {};
  char32_t value = lead & (0xFFU >> (length + 1));
  for (size_t i = 1; i < length; ++i) {
    const auto byte = static_cast<unsigned char>(text[at + i]);
    if ((byte & 0xC0) != 0x80) return {};
    value = value << 6 | (byte & 0x3F);
  }
  const bool overlong = (length == 3 && value < 0x800) || (length == 4 && value < 0x10000);
  const bool surrogate = value >= 0xD800 && value <= 0xDFFF;
  if (overlong || surrogate || value > 0x10FFFF) return {};
  return {value, length};
}

void append_utf8(char32_t value, std::string& out) {
  const auto put = [&out](char32_t byte) { out.push_back(static_cast<char>(byte)); };
  const auto put_rest = [&](int bits) { put(0x80 | ((value >> bits) & 0x3F)); };
  if (value < 0x80) {
    put(value);
  } else if (value < 0x800) {
    put(0xC0 | value >> 6);
    put_rest(0);
  } else if (value < 0x10000) {
    put(0xE0 | value >> 12);
    put_rest(6);
    put_rest(0);
  } else {
    put(0xF0 | value >> 18);
    put_rest(12);
    put_rest(6);
    put_rest(0);
  }
}

size_t find_invalid_utf8(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    uint64_t eight = 0;
    if (text.size() - at >= sizeof(eight)) {
      std::memcpy(&eight, text.data() + at, sizeof(eight));
      if ((eight & 0x8080808080808080U) == 0) {  // eight characters of ASCII at once
        at += sizeof(eight);
        continue;
      }
    }
    const size_t length = decode_utf8(text, at).length;
    if (length == 0) return at;
    at += length;
  }
  return at;
}

void check_utf8(const char* operation, std::string_view text, size_t offset) {
  const size_t at = find_invalid_utf8(text);
  if (at == text.size()) return;
  throw InputError(operation, fmt::format("byte {} (0x{:02x}) is not UTF-8; convert the text to UTF-8 first",
                                          offset + at, static_cast<unsigned char>(text[at])));
}

}  // namespace bridle
