// The header of a safetensors file, between its JSON text and a table of where each tensor lies. Strict: no key twice,
// no unknown key, no value of another type. Whether the places fit the file is for safetensors_decode.h.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace bridle {

constexpr const char* kSafetensorsMetadata = "__metadata__";
constexpr size_t kSafetensorsLargestHeader = 100'000'000;  // as in the format's reference implementation
constexpr size_t kSafetensorsMostDimensions = 64;          // what LibTorch's operators can take

struct SafetensorsEntry {
  std::string name;
  at::ScalarType dtype = at::kFloat;
  std::vector<int64_t> shape;
  uint64_t begin = 0;  // bytes, counted from the end of the header
  uint64_t end = 0;

  // Elements times their size. Empty where the dimensions that are not 0 overflow: LibTorch's strides would, too.
  std::optional<uint64_t> byte_count() const;
};

struct SafetensorsHeader {
  std::map<std::string, std::string> metadata;
  std::vector<SafetensorsEntry> entries;  // as they come in the text
};

// A dtype and the format's word for it; empty where there is none.
constexpr const char* kSafetensorsDtypes = "F64 F32 F16 BF16 I64 I32 I16 I8 U8 BOOL";
std::optional<std::string> safetensors_from_dtype(at::ScalarType type);
std::optional<at::ScalarType> dtype_from_safetensors(std::string_view name);

// JSON, padded with spaces to a multiple of 8 bytes. Names and metadata must be UTF-8, or nlohmann::json throws.
std::string print_safetensors_header(const SafetensorsHeader& header);

// Throws InputError, naming `path`.
SafetensorsHeader parse_safetensors_header(std::string_view text, const std::filesystem::path& path);

// A name for an error's message: in quotes, escaped, cut where it is very long.
std::string in_quotes(std::string_view name);

// Throws InputError "[safetensors] PATH: what; advice".
constexpr const char* kSafetensorsDamaged =
    "the file is damaged or no safetensors file: write or fetch it again";
[[noreturn]] void refuse_safetensors(const std::filesystem::path& path, const std::string& what,
                                     const std::string& advice = kSafetensorsDamaged);

}  // namespace bridle
