// See display.h.
#include "base/display.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <system_error>

namespace bridle {
namespace {

// From here on and below numbers are shown with an exponent.
constexpr double kLargestPlain = 1e6;
constexpr double kSmallestPlain = 1e-4;

enum class Direction { nearest, up, down };

// Without regard to the locale.
double read_back(const std::string& text) {
  double value = 0.0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
  if (read.ec != std::errc::result_out_of_range || text.find("e-") != std::string::npos) return value;
  return text.front() == '-' ? -HUGE_VAL : HUGE_VAL;
}

// "1.500" → "1.5", "2.000e-07" → "2e-07".
std::string without_zeros(std::string text) {
  const size_t exponent = std::min(text.find('e'), text.size());
  if (text.find('.') >= exponent) return text;
  size_t end = exponent;
  while (text[end - 1] == '0') --end;
  if (text[end - 1] == '.') --end;
  return text.erase(end, exponent - end);
}

std::string print(double value, int digits, Direction direction) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0.0 ? "inf" : "-inf";
  if (value == 0.0) return "0";
  const double size = std::abs(value);
  const int leading = static_cast<int>(std::floor(std::log10(size)));
  const bool plain = size >= kSmallestPlain && size < kLargestPlain;
  const int decimals = std::max(0, digits - 1 - leading);
  const double unit = std::max(std::pow(10.0, plain ? -decimals : leading - digits + 1),
                               2.0 * std::numeric_limits<double>::denorm_min());
  double candidate = value;
  for (;;) {
    const std::string text =
        plain ? fmt::format("{:.{}f}", candidate, decimals) : fmt::format("{:.{}e}", candidate, digits - 1);
    const double printed = read_back(text);
    const bool holds = direction == Direction::nearest || (direction == Direction::up && printed >= value) ||
                       (direction == Direction::down && printed <= value);
    if (holds) return without_zeros(text);
    candidate += direction == Direction::up ? unit / 2 : -unit / 2;
  }
}

}  // namespace

std::string shown(double value, int digits) { return print(value, digits, Direction::nearest); }
std::string shown_upper(double value, int digits) { return print(value, digits, Direction::up); }
std::string shown_lower(double value, int digits) { return print(value, digits, Direction::down); }

std::string shown_percent(double share) { return fmt::format("{:.2f} %", 100.0 * share); }

std::string shown_percent_lower(double share) {
  return fmt::format("{:.2f} %", std::floor(1e4 * share) / 100.0);
}

std::string shown_count(int64_t count) {
  const std::string digits = std::to_string(count);
  std::string text;
  for (size_t i = 0; i < digits.size(); ++i) {
    const size_t left = digits.size() - i;
    if (left % 3 == 0 && i > (count < 0 ? 1U : 0U)) text += ',';
    text += digits[i];
  }
  return text;
}

std::string shown_bytes(double bytes) {
  if (bytes < 1e6) return fmt::format("{:.1f} kB", bytes / 1e3);
  return bytes < 1e9 ? fmt::format("{:.1f} MB", bytes / 1e6) : fmt::format("{:.1f} GB", bytes / 1e9);
}

std::string shown_time(double seconds) {
  const auto whole = std::llround(seconds);
  if (whole >= 3600) return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
  return fmt::format("{}:{:02}", whole / 60, whole % 60);
}

size_t shown_width(const std::string& text) {
  return static_cast<size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

std::string pad_right(const std::string& text, size_t width) {
  return text + std::string(width - std::min(width, shown_width(text)), ' ');
}

std::string pad_left(const std::string& text, size_t width) {
  return std::string(width - std::min(width, shown_width(text)), ' ') + text;
}

}  // namespace bridle
