// Numbers as people read them: four significant digits, plain decimals where they are short. A bound is never shown better than it
// is: an upper one is rounded up, a lower one down. JSON and files never go through here.
#pragma once

#include <cstdint>
#include <string>

namespace bridle {

inline constexpr int kShownDigits = 4;

std::string shown(double value, int digits = kShownDigits);        // the nearest
std::string shown_upper(double value, int digits = kShownDigits);  // read back, not below the value
std::string shown_lower(double value, int digits = kShownDigits);  // read back, not above the value

std::string shown_percent(double share);        // "12.34 %", the nearest
std::string shown_percent_lower(double share);  // the same for a share that is certified

std::string shown_count(int64_t count);  // "111,540"
std::string shown_bytes(double bytes);   // "12.3 MB"
std::string shown_time(double seconds);  // "1:05", "2:03:04"

// Characters on the screen, of UTF-8; and the text with spaces up to so many, after it or before it.
size_t shown_width(const std::string& text);
std::string pad_right(const std::string& text, size_t width);
std::string pad_left(const std::string& text, size_t width);

}  // namespace bridle
