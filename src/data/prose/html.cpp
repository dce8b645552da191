// See html.h. Not a browser's parser: enough for the pages of documentation and for mail.
#include "data/prose/html.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <utility>

#include "data/prose/text.h"
#include "data/utf8.h"

namespace bridle {
namespace {

constexpr auto kNone = std::string_view::npos;

std::string lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(),
                         [](unsigned char byte) { return static_cast<char>(std::tolower(byte)); });
  return out;
}

template <size_t N>
bool is_one_of(std::string_view word, const std::array<std::string_view, N>& words) {
  return std::ranges::find(words, word) != words.end();
}

constexpr std::array kSkipped = std::to_array<std::string_view>(
    {"script", "style", "head", "pre", "nav", "svg", "math", "form", "noscript", "footer", "header", "aside",
     "button", "label", "select", "textarea"});
constexpr std::array kBlocks = std::to_array<std::string_view>(
    {"p",       "div",    "h1",      "h2",         "h3",   "h4",     "h5",    "h6",     "ul",
     "ol",      "dl",     "dt",      "dd",         "li",   "tr",     "hr",    "br",     "td",
     "th",      "table",  "tbody",   "thead",      "body", "html",   "main",  "figure", "section",
     "article", "center", "caption", "blockquote", "pre",  "header", "aside", "footer"});
// Parts of pages that are marked by a class or an id: navigation, contents, indexes, links of headings.
constexpr std::array kSkippedMarks = std::to_array<std::string_view>(
    {"navheader", "navfooter",   "sphinxsidebar", "related",   "toc",      "footer",
     "clearer",   "indextable",  "headerlink",    "highlight", "fancytoc", "toctree-wrapper",
     "nosearch",  "page-header", "path",          "quickview", "toplang",  "bottomlang",
     "up",        "top",         "index-label"});
constexpr std::array kEmptyElements =
    std::to_array<std::string_view>({"br", "hr", "img", "meta", "link", "input"});

constexpr std::pair<std::string_view, char32_t> kEntities[] = {
    {"amp", '&'},      {"lt", '<'},       {"gt", '>'},        {"quot", '"'},     {"apos", '\''},
    {"nbsp", ' '},     {"mdash", 0x2014}, {"ndash", 0x2013},  {"lsquo", 0x2018}, {"rsquo", 0x2019},
    {"ldquo", 0x201C}, {"rdquo", 0x201D}, {"hellip", 0x2026}, {"copy", 0xA9},    {"reg", 0xAE},
    {"eacute", 0xE9},  {"egrave", 0xE8},  {"aacute", 0xE1},   {"agrave", 0xE0},  {"ouml", 0xF6},
    {"uuml", 0xFC},    {"auml", 0xE4},    {"ccedil", 0xE7},   {"ntilde", 0xF1},  {"szlig", 0xDF},
    {"pound", 0xA3},   {"sect", 0xA7},    {"middot", 0xB7},   {"times", 0xD7},   {"deg", 0xB0},
    {"trade", 0x2122}, {"bull", 0x2022},  {"minus", 0x2212},  {"rarr", 0x2192},  {"larr", 0x2190}};

// What stands between "&" and ";": nothing where it is no character that can be.
char32_t entity(std::string_view name) {
  for (const auto& [known, value] : kEntities) {
    if (name == known) return value;
  }
  if (!name.starts_with('#')) return 0;
  const bool hex = name.starts_with("#x") || name.starts_with("#X");
  const std::string_view digits = name.substr(hex ? 2 : 1);
  uint32_t value = 0;
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), value, hex ? 16 : 10);
  const bool is_character = error == std::errc() && end == digits.data() + digits.size() &&
                            value < 0x110000 && !(value >= 0xD800 && value < 0xE000);
  return is_character ? value : 0;
}

class Page {
 public:
  explicit Page(std::string_view html) : rest_(html) {}

  std::string text() {
    while (!rest_.empty()) {
      const size_t sign = std::min(rest_.find_first_of("<&"), rest_.size());
      put(rest_.substr(0, sign));
      rest_.remove_prefix(sign);
      if (rest_.starts_with('<')) {
        tag();
      } else if (rest_.starts_with('&')) {
        character();
      }
    }
    end_paragraph();
    return std::move(out_);
  }

 private:
  void put(std::string_view text) {
    if (skipped_.empty()) paragraph_ += text;
  }

  void end_paragraph() {
    const std::string text = collapse_spaces(paragraph_);
    if (!text.empty()) out_ += (out_.empty() ? "" : "\n\n") + text;
    paragraph_.clear();
  }

  void character() {
    const size_t end = rest_.substr(0, 12).find(';');
    const char32_t value = end == kNone ? 0 : entity(rest_.substr(1, end - 1));
    if (value == 0) {
      put("&");
      rest_.remove_prefix(1);
      return;
    }
    std::string written;
    append_utf8(value, written);
    put(written);
    rest_.remove_prefix(end + 1);
  }

  // A "<" that begins no tag is text: "a < b".
  void tag() {
    if (rest_.starts_with("<!--")) return drop_to("-->");
    const bool is_tag = rest_.size() > 1 && (std::isalpha(static_cast<unsigned char>(rest_[1])) != 0 ||
                                             rest_[1] == '/' || rest_[1] == '!' || rest_[1] == '?');
    const size_t end = is_tag ? rest_.find('>') : kNone;
    if (end == kNone) {
      put(rest_.substr(0, 1));
      rest_.remove_prefix(1);
      return;
    }
    const std::string_view inside = rest_.substr(1, end - 1);
    rest_.remove_prefix(end + 1);
    element(inside);
  }

  void drop_to(std::string_view end) {
    const size_t at = rest_.find(end);
    rest_.remove_prefix(at == kNone ? rest_.size() : at + end.size());
  }

  // Scripts and styles end at their own closing tag, whatever stands before it.
  void drop_raw(const std::string& name) {
    size_t at = rest_.find("</");
    while (at != kNone && lower(rest_.substr(at + 2, name.size())) != name) at = rest_.find("</", at + 2);
    rest_.remove_prefix(at == kNone ? rest_.size() : at);
  }

  void element(std::string_view inside) {
    const bool closes = inside.starts_with('/');
    if (closes) inside.remove_prefix(1);
    const std::string name = lower(inside.substr(0, inside.find_first_of(" \t\r\n/")));
    if (!skipped_.empty()) return nested(name, closes, inside);
    if (!closes && (name == "script" || name == "style")) return drop_raw(name);
    const bool empty = inside.ends_with('/') || is_one_of(name, kEmptyElements);
    if (!closes && !empty && (is_one_of(name, kSkipped) || is_marked(inside))) {
      end_paragraph_unless_inline(name);
      skipped_ = name;
      depth_ = 1;
      return;
    }
    end_paragraph_unless_inline(name);
  }

  // Inside an element that is left out: only elements of its own name say where it ends.
  void nested(const std::string& name, bool closes, std::string_view inside) {
    if (name != skipped_ || inside.ends_with('/')) return;
    depth_ += closes ? -1 : 1;
    if (depth_ == 0) skipped_.clear();
  }

  void end_paragraph_unless_inline(const std::string& name) {
    if (is_one_of(name, kBlocks)) end_paragraph();
  }

  // The value of class="…", class='…' or class=….
  static std::string_view attribute(std::string_view inside, std::string_view name) {
    const size_t at = inside.find(name);
    if (at == kNone) return {};
    std::string_view value = inside.substr(at + name.size());
    const bool quoted = value.starts_with('"') || value.starts_with('\'');
    if (!quoted) return value.substr(0, value.find_first_of(" \t\n"));
    return value.substr(1, value.find(value[0], 1) - 1);
  }

  static bool is_marked(std::string_view inside) {
    for (const std::string_view name : {" class=", " id="}) {
      std::string_view words = attribute(inside, name);
      while (!words.empty()) {
        const size_t end = std::min(words.find(' '), words.size());
        if (is_one_of(words.substr(0, end), kSkippedMarks)) return true;
        words.remove_prefix(std::min(end + 1, words.size()));
      }
    }
    return false;
  }

  std::string_view rest_;
  std::string out_, paragraph_;
  std::string skipped_;  // the element that is left out now
  int depth_ = 0;        // of elements of this name
};

}  // namespace

std::string text_of_html(std::string_view html) { return Page(html).text(); }

}  // namespace bridle
