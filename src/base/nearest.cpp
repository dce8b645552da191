// See nearest.h.
#include "base/nearest.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "bridle/error.h"

namespace bridle {
namespace {

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t substituted = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({row[j] + 1, row[j + 1] + 1, substituted});
    }
  }
  return row.back();
}

}  // namespace

std::string nearest_word(std::string_view word, std::span<const std::string> known) {
  word = word.substr(0, 100);  // nobody mistypes more, and the distance takes time in proportion
  return *std::min_element(known.begin(), known.end(), [word](const std::string& a, const std::string& b) {
    return edit_distance(word, a) < edit_distance(word, b);
  });
}

size_t find_word(std::string_view word, const std::vector<std::string>& known, const char* operation,
                 const char* kind) {
  const auto place = std::find(known.begin(), known.end(), word);
  if (place != known.end()) return static_cast<size_t>(place - known.begin());
  throw InputError(operation, fmt::format("no {} '{}'; did you mean '{}'? Known: {}", kind, word,
                                          nearest_word(word, known), fmt::join(known, ", ")));
}

}  // namespace bridle
