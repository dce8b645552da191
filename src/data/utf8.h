// UTF-8, read strictly: no overlong forms, no surrogates, nothing above U+10FFFF, nothing cut short.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace bridle {

struct CodePoint {
  char32_t value = 0;
  size_t length = 0;  // in bytes; 0 where the bytes are not UTF-8
};

CodePoint decode_multibyte_utf8(std::string_view text, size_t at);

// The code point that starts at byte `at` of the text; requires at < text.size().
inline CodePoint decode_utf8(std::string_view text, size_t at) {
  const auto byte = static_cast<unsigned char>(text[at]);
  if (byte < 0x80) return {byte, 1};
  return decode_multibyte_utf8(text, at);
}

// Appends the code point; requires that it is no surrogate and at most U+10FFFF.
void append_utf8(char32_t value, std::string& out);

// Where the first byte that is not part of a whole character stands; text.size() where there is none.
size_t find_invalid_utf8(std::string_view text);

// Throws InputError, "[operation] byte 1234 (0xff) is not UTF-8; …". Where the text is a part of a file, `offset` is
// where it starts there.
void check_utf8(const char* operation, std::string_view text, size_t offset = 0);

}  // namespace bridle
