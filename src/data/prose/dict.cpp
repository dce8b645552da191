// See dict.h.
#include "data/prose/dict.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "bridle/error.h"
#include "data/prose/text.h"

namespace bridle {
namespace {

constexpr auto kNone = std::string_view::npos;

// Big-endian digits; npos where there is a sign that is none.
size_t from_base_64(std::string_view digits) {
  constexpr std::string_view signs = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  size_t value = 0;
  for (const char digit : digits) {
    const size_t one = signs.find(digit);
    if (one == kNone || value > (kNone >> 7)) return kNone;
    value = value * 64 + one;
  }
  return digits.empty() ? kNone : value;
}

// Lengths by offset, without the entries that describe the dictionary.
std::map<size_t, size_t> places_of(const std::string& name, std::string_view index, size_t size) {
  std::map<size_t, size_t> places;
  while (!index.empty()) {
    const std::string_view line = next_line(index);
    if (line.empty() || line.starts_with("00-database") || line.starts_with("00database")) continue;
    const size_t first = line.find('\t'), second = first == kNone ? kNone : line.find('\t', first + 1);
    const size_t offset = second == kNone ? kNone : from_base_64(line.substr(first + 1, second - first - 1));
    const size_t third = second == kNone ? kNone : line.find('\t', second + 1);
    const size_t length = second == kNone ? kNone : from_base_64(line.substr(second + 1, third - second - 1));
    if (offset == kNone || length == kNone || offset > size || length > size - offset)
      throw InputError("data",
                       fmt::format("{}: the index's line \"{}\" names no place in a text of {} bytes; "
                                   "fetch the package again",
                                   name, line.substr(0, 80), size));
    places[offset] = length;
  }
  return places;
}

// "[1913 Webster]": the line says only who wrote the entry.
bool is_origin(std::string_view line) {
  return line.starts_with('[') && line.ends_with(']') && line.find(']') + 1 == line.size();
}

// Of \Ab"di*ca"tion\ nothing, of {links} what is inside.
std::string without_markup(std::string_view paragraph) {
  std::string out;
  for (size_t at = 0; at < paragraph.size(); ++at) {
    const char byte = paragraph[at];
    const size_t end = byte == '\\' ? paragraph.find('\\', at + 1) : kNone;
    if (end != kNone) {
      at = end;
      if (out.ends_with(' ')) out.pop_back();
    } else if (byte != '{' && byte != '}') {
      out += byte;
    }
  }
  return out;
}

std::string clean_entry(std::string_view entry) {
  std::string out, paragraph;
  const auto end_paragraph = [&] {
    const std::string text = collapse_spaces(without_markup(paragraph));
    if (!text.empty()) out += text + "\n";
    paragraph.clear();
  };
  while (!entry.empty()) {
    std::string_view line = next_line(entry);
    line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
    if (line.empty())
      end_paragraph();
    else if (!is_origin(line))
      paragraph += std::string(line) + " ";
  }
  end_paragraph();
  return out;
}

}  // namespace

std::vector<std::string> documents_of_dict(const std::string& name, std::string_view index,
                                           std::string_view text, size_t size) {
  std::vector<std::string> documents(1);
  size_t end = 0;
  for (const auto& [offset, length] : places_of(name, index, text.size())) {
    if (offset < end) continue;  // a headword for a part of an entry that is taken already
    end = offset + length;
    if (documents.back().size() >= size) documents.emplace_back();
    documents.back() += clean_entry(text.substr(offset, length)) + "\n";
  }
  return documents;
}

}  // namespace bridle
