#include "base/json_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>
#include <vector>

#include "base/settings.h"
#include "bridle/error.h"

namespace bridle {
namespace {

using Json = nlohmann::ordered_json;

std::string cut(std::string text) {
  constexpr size_t kLongest = 100;
  if (text.size() <= kLongest) return text;
  return text.substr(0, kLongest) + "...";
}

// Reads the text without keeping values, and stops at the first flaw.
class FlawFinder : public nlohmann::json_sax<Json> {
 public:
  std::optional<std::string> take() { return std::move(flaw_); }

  bool null() override { return true; }
  bool boolean(bool /*value*/) override { return true; }
  bool string(std::string& /*value*/) override { return true; }
  bool binary(Json::binary_t& /*value*/) override { return true; }
  bool number_integer(int64_t value) override {  // only what begins with a minus
    if (value == 0) return stop("it holds -0");
    return value >= -kLargestInteger || stop(fmt::format("it holds {}, beyond 2^53", value));
  }
  bool number_unsigned(uint64_t value) override {
    return value <= static_cast<uint64_t>(kLargestInteger) ||
           stop(fmt::format("it holds {}, beyond 2^53", value));
  }
  bool number_float(double /*value*/, const std::string& text) override {  // also integers beyond 64 bits
    return text.find_first_of(".eE") != std::string::npos ||
           stop(fmt::format("it holds {}, beyond 2^53", cut(text)));
  }
  bool start_object(size_t /*size*/) override {
    keys_.emplace_back();
    return deeper();
  }
  bool key(std::string& word) override {
    if (!keys_.back().insert(word).second) return stop(fmt::format("the key '{}' comes twice", cut(word)));
    return keys_.back().size() <= kMostKeys ||
           stop(fmt::format("an object has more than {} keys", kMostKeys));
  }
  bool end_object() override {
    keys_.pop_back();
    --depth_;
    return true;
  }
  bool start_array(size_t /*size*/) override { return deeper(); }
  bool end_array() override {
    --depth_;
    return true;
  }
  bool parse_error(size_t position, const std::string& /*token*/, const Json::exception& error) override {
    constexpr int kNumberBeyondDouble = 406;
    if (error.id == kNumberBeyondDouble) return stop("it holds a number beyond a double");
    return stop(fmt::format("byte {} is not what UTF-8 JSON can have there: truncated or damaged", position));
  }

 private:
  bool stop(std::string flaw) {
    flaw_ = std::move(flaw);
    return false;
  }
  bool deeper() {
    return ++depth_ <= kDeepestJson || stop(fmt::format("it is nested more than {} deep", kDeepestJson));
  }
  std::vector<std::unordered_set<std::string>> keys_;  // of every object that has not ended
  size_t depth_ = 0;
  std::optional<std::string> flaw_;
};

struct SettingValue {
  Json operator()(const ChoiceList& list) const { return list.chosen(); }
  Json operator()(const Choice& choice) const { return choice.chosen(); }
  template <class T>
  Json operator()(const T* value) const {
    return *value;
  }
};

}  // namespace

std::optional<std::string> json_flaw(std::string_view text) {
  if (text.size() > kLargestJson)
    return fmt::format("it has {} bytes, more than {}", text.size(), kLargestJson);
  // The parser takes a zero byte for the end, and skips a byte-order mark.
  if (text.find('\0') != std::string_view::npos) return "it holds a zero byte";
  if (text.starts_with("\xEF\xBB\xBF")) return "it begins with a byte-order mark";
  FlawFinder finder;
  Json::sax_parse(text.begin(), text.end(), &finder);
  return finder.take();
}

Json parse_json(std::string_view text, const char* operation, const std::string& origin) {
  if (const auto flaw = json_flaw(text))
    throw InputError(operation, fmt::format("{} is not JSON that can be read: {}", origin, *flaw));
  return Json::parse(text);
}

bool same_json(const Json& a, const Json& b) {
  if (a.is_number_integer() && b.is_number_integer()) return a == b;  // signed and unsigned
  if (a.type() != b.type() || a.size() != b.size()) return false;
  if (a.is_object())
    return std::all_of(a.items().begin(), a.items().end(), [&b](const auto& item) {
      const auto found = b.find(item.key());
      return found != b.end() && same_json(item.value(), *found);
    });
  if (a.is_array()) return std::equal(a.begin(), a.end(), b.begin(), same_json);
  return a == b;
}

Json json_of(const Setting& setting) { return std::visit(SettingValue{}, setting.place); }

std::string shown(const Json& value) {
  return cut(value.dump(-1, ' ', false, Json::error_handler_t::replace));
}

}  // namespace bridle
