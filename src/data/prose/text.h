// What is done to the text of every source: encodings repaired, white space tidied, and what tells two documents apart.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace bridle {

// UTF-8 of bytes in Windows-1252, of which ISO 8859-1's printable characters are a part.
std::string from_windows_1252(std::string_view bytes);

// The text as UTF-8: bytes that are not are taken for Windows-1252, and its punctuation that was read as ISO 8859-1 (U+0080
// to U+009F) is set right. Nothing where characters are lost (U+FFFD), or where NUL shows that this is no text.
std::optional<std::string> repair_encoding(std::string_view bytes);

// Lines without trailing spaces, tabs as spaces, at most one empty line in a row, no control or invisible characters, none of
// it at either end. Requires UTF-8.
std::string tidy(std::string_view text);

// White space as single spaces, none at the ends.
std::string collapse_spaces(std::string_view text);

// Lines of the text, without their ends ("\n" or "\r\n").
std::string_view next_line(std::string_view& rest);

// At least seven tenths of its bytes are ASCII letters and white space: tables, code and other scripts are not.
bool is_prose(std::string_view text);

// SHA-256 of the letters and digits alone, lower-case: equal for texts that differ in spaces and punctuation.
std::string fingerprint(std::string_view text);

}  // namespace bridle
