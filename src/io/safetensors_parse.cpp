// The header's text, read event by event: a tree of values would have lost keys that come twice.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/nearest.h"
#include "io/safetensors_header.h"

namespace bridle {
namespace {

using nlohmann::json;

const std::array<std::string, 3> kFields = {"dtype", "shape", "data_offsets"};

class HeaderReader : public nlohmann::json_sax<json> {
 public:
  explicit HeaderReader(const std::filesystem::path& path) : path_(path) {}
  SafetensorsHeader take() { return std::move(header_); }

  bool null() override { unexpected("null"); }
  bool boolean(bool value) override { unexpected(value ? "true" : "false"); }
  bool number_integer(int64_t value) override { unexpected(fmt::format("{}", value)); }
  bool number_float(double /*value*/, const std::string& text) override { unexpected(in_quotes(text)); }
  bool binary(json::binary_t& /*value*/) override { unexpected("binary data"); }
  bool number_unsigned(uint64_t value) override;
  bool string(std::string& value) override;
  bool start_object(size_t size) override;
  bool key(std::string& word) override;
  bool end_object() override;
  bool start_array(size_t size) override;
  bool end_array() override;
  bool parse_error(size_t position, const std::string& token, const json::exception& error) override;

 private:
  enum class Place { outside, names, metadata, entry, list };

  SafetensorsEntry& entry() { return header_.entries.back(); }
  std::string where() const;
  void set_dtype(const std::string& name);
  [[noreturn]] void unexpected(const std::string& what) const;
  [[noreturn]] void refuse(const std::string& what, const std::string& advice = kSafetensorsDamaged) const {
    refuse_safetensors(path_, where() + what, advice);
  }

  const std::filesystem::path& path_;
  SafetensorsHeader header_;
  Place place_ = Place::outside;
  std::set<std::string> names_;   // seen in the header
  std::set<std::string> fields_;  // seen in this entry
  std::string name_;              // of the entry
  std::string key_;               // inside the entry or the metadata
  std::vector<uint64_t> list_;
};

std::string HeaderReader::where() const {
  if (name_ == kSafetensorsMetadata) return name_ + ": ";
  return fmt::format("tensor {}: ", in_quotes(name_));
}

void HeaderReader::unexpected(const std::string& what) const {
  std::string wanted = fmt::format("an object with {}", fmt::join(kFields, ", "));
  if (place_ == Place::names && name_ == kSafetensorsMetadata) wanted = "an object with strings";
  if (place_ == Place::metadata) wanted = "a string";
  if (place_ == Place::entry) wanted = key_ == "dtype" ? "a string" : "a list";
  if (place_ == Place::list) wanted = "an integer from 0 to 2^64 - 1";
  const std::string of = place_ == Place::names ? "its value is" : in_quotes(key_) + " holds";
  refuse(fmt::format("{} {}, where {} belongs", of, what, wanted));
}

bool HeaderReader::start_object(size_t /*size*/) {
  if (place_ == Place::outside) {
    place_ = Place::names;
  } else if (place_ == Place::names && name_ == kSafetensorsMetadata) {
    place_ = Place::metadata;
  } else if (place_ == Place::names) {
    place_ = Place::entry;
    fields_.clear();
    header_.entries.emplace_back().name = name_;
  } else {
    unexpected("an object");
  }
  return true;
}

bool HeaderReader::key(std::string& word) {
  if (place_ == Place::names) {
    name_ = word;
    if (!names_.insert(word).second) refuse("its name comes twice");
    return true;
  }
  key_ = word;
  if (place_ == Place::metadata) {
    if (header_.metadata.contains(word)) refuse(fmt::format("key {} comes twice", in_quotes(word)));
    return true;
  }
  if (std::find(kFields.begin(), kFields.end(), word) == kFields.end())
    refuse(fmt::format("unknown key {}", in_quotes(word)),
           fmt::format("did you mean \"{}\"? Known: {}", nearest_word(word.substr(0, 100), kFields),
                       fmt::join(kFields, ", ")));
  if (!fields_.insert(word).second) refuse(fmt::format("key {} comes twice", in_quotes(word)));
  return true;
}

bool HeaderReader::end_object() {
  if (place_ == Place::entry)
    for (const std::string& field : kFields)
      if (!fields_.contains(field)) refuse(fmt::format("\"{}\" is missing", field));
  place_ = place_ == Place::names ? Place::outside : Place::names;
  return true;
}

bool HeaderReader::string(std::string& value) {
  if (place_ == Place::metadata)
    header_.metadata.emplace(key_, value);
  else if (place_ == Place::entry && key_ == "dtype")
    set_dtype(value);
  else
    unexpected(in_quotes(value));
  return true;
}

void HeaderReader::set_dtype(const std::string& name) {
  const std::optional<at::ScalarType> dtype = dtype_from_safetensors(name);
  if (!dtype)
    refuse(fmt::format("dtype {} is not known", in_quotes(name)),
           fmt::format("convert the tensor to one of {}", kSafetensorsDtypes));
  entry().dtype = *dtype;
}

bool HeaderReader::start_array(size_t /*size*/) {
  if (place_ != Place::entry || key_ == "dtype") unexpected("a list");
  place_ = Place::list;
  list_.clear();
  return true;
}

bool HeaderReader::number_unsigned(uint64_t value) {
  if (place_ != Place::list) unexpected(fmt::format("{}", value));
  if (key_ == "shape" && value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
    refuse(fmt::format("shape holds {}, which is more than 2^63 - 1", value));
  if (list_.size() == kSafetensorsMostDimensions)
    refuse(fmt::format("\"{}\" holds more than {} numbers", key_, kSafetensorsMostDimensions));
  list_.push_back(value);
  return true;
}

bool HeaderReader::end_array() {
  place_ = Place::entry;
  if (key_ == "shape") {
    entry().shape.assign(list_.begin(), list_.end());
    return true;
  }
  if (list_.size() != 2) refuse(fmt::format("data_offsets holds {} numbers instead of 2", list_.size()));
  entry().begin = list_[0];
  entry().end = list_[1];
  return true;
}

bool HeaderReader::parse_error(size_t position, const std::string& /*token*/,
                               const json::exception& /*error*/) {
  refuse_safetensors(path_,
                     fmt::format("the header's byte {} is not what UTF-8 JSON can have there", position));
}

}  // namespace

SafetensorsHeader parse_safetensors_header(std::string_view text, const std::filesystem::path& path) {
  if (!text.starts_with('{')) refuse_safetensors(path, "the header does not begin with '{'");
  // The parser takes a zero byte for the end of the text and would not look at what follows.
  const size_t zero = text.find('\0');
  if (zero != std::string_view::npos)
    refuse_safetensors(path, fmt::format("the header's byte {} is zero", zero + 1));
  HeaderReader reader(path);
  json::sax_parse(text.begin(), text.end(), &reader);
  return reader.take();
}

}  // namespace bridle
