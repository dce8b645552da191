// See safetensors_header.h; reading the text is in safetensors_parse.cpp.
#include "io/safetensors_header.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "bridle/error.h"

namespace bridle {
namespace {

using nlohmann::json;

struct Dtype {
  const char* name;
  at::ScalarType type;
};
constexpr std::array<Dtype, 10> kDtypes = {{{"F64", at::kDouble},
                                            {"F32", at::kFloat},
                                            {"F16", at::kHalf},
                                            {"BF16", at::kBFloat16},
                                            {"I64", at::kLong},
                                            {"I32", at::kInt},
                                            {"I16", at::kShort},
                                            {"I8", at::kChar},
                                            {"U8", at::kByte},
                                            {"BOOL", at::kBool}}};

}  // namespace

std::optional<std::string> safetensors_from_dtype(at::ScalarType type) {
  for (const Dtype& dtype : kDtypes)
    if (dtype.type == type) return dtype.name;
  return std::nullopt;
}

std::optional<at::ScalarType> dtype_from_safetensors(std::string_view name) {
  for (const Dtype& dtype : kDtypes)
    if (dtype.name == name) return dtype.type;
  return std::nullopt;
}

std::optional<uint64_t> SafetensorsEntry::byte_count() const {
  auto bytes = static_cast<int64_t>(c10::elementSize(dtype));
  bool empty = false;
  for (const int64_t size : shape) {
    empty = empty || size == 0;
    if (__builtin_mul_overflow(bytes, std::max<int64_t>(size, 1), &bytes)) return std::nullopt;
  }
  return empty ? 0 : static_cast<uint64_t>(bytes);
}

std::string print_safetensors_header(const SafetensorsHeader& header) {
  std::vector<std::string> parts;
  if (!header.metadata.empty())
    parts.push_back(fmt::format("\"{}\":{}", kSafetensorsMetadata, json(header.metadata).dump()));
  for (const SafetensorsEntry& entry : header.entries)
    parts.push_back(fmt::format(R"({}:{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})",
                                json(entry.name).dump(), safetensors_from_dtype(entry.dtype).value(),
                                fmt::join(entry.shape, ","), entry.begin, entry.end));
  std::string text = fmt::format("{{{}}}", fmt::join(parts, ","));
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

std::string in_quotes(std::string_view name) {
  constexpr size_t kLongest = 100;
  std::string shown(name.substr(0, kLongest));
  if (name.size() > kLongest) shown += "...";
  return json(shown).dump(-1, ' ', false, json::error_handler_t::replace);
}

void refuse_safetensors(const std::filesystem::path& path, const std::string& what,
                        const std::string& advice) {
  throw InputError("safetensors", fmt::format("{}: {}; {}", path.string(), what, advice));
}

}  // namespace bridle
