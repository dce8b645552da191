// See tagged.h. The corpus has every ?, ! and ; twice.
#include "data/prose/tagged.h"

#include <algorithm>
#include <sstream>

#include "data/prose/text.h"

namespace bridle {
namespace {

// No space before these.
bool closes(const std::string& word) {
  return word == "''" || word == ")" || word == "]" ||
         (word.size() <= 2 && word.find_first_not_of(".,;:?!") == std::string::npos);
}
bool opens(const std::string& word) { return word == "``" || word == "(" || word == "["; }

std::string shown(const std::string& word) { return word == "``" || word == "''" ? "\"" : word; }

std::string sentence(const std::string& line) {
  std::istringstream words(line);
  std::string out;
  std::string last;
  bool glued = true;  // the next word follows without a space
  for (std::string word; words >> word;) {
    word = word.substr(0, std::max<size_t>(1, std::min(word.rfind('/'), word.size())));
    if (word == last && std::string_view("?!;").find(word) != std::string_view::npos) continue;
    last = word;
    if (!glued && !closes(word)) out += ' ';
    out += shown(word);
    glued = opens(word);
  }
  return out;
}

}  // namespace

std::string text_of_tagged(std::string_view tagged) {
  std::string out;
  while (!tagged.empty()) {
    const std::string text = sentence(std::string(next_line(tagged)));
    if (!text.empty()) out += text + "\n";
  }
  return out;
}

}  // namespace bridle
