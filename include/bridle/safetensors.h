// Safetensors: named tensors in one file, as Hugging Face's tools read and write them. The format is
//   u64 length, little endian | JSON header of that length, padded with spaces | the tensors' bytes, without gaps
// where the header maps each name to its dtype, shape and place: {"w":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}}.
// Dtypes: F64 F32 F16 BF16 I64 I32 I16 I8 U8 BOOL.
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace bridle {

struct SafetensorsFile {
  std::map<std::string, std::string> metadata;              // the header's "__metadata__"
  std::vector<std::pair<std::string, at::Tensor>> tensors;  // in the order of their bytes

  // Throws InputError, suggesting the nearest name, where there is no such tensor.
  const at::Tensor& at(std::string_view name) const;
};

// Afterwards the path holds the whole file, or what it held before. Tensors may be on any device and of any strides;
// they are laid out in the given order, so wider dtypes first keep every one of them aligned. The same input gives the
// same bytes. Throws InputError for a name that comes twice, is "__metadata__" or not UTF-8, for a dtype outside the
// list above, and for tensors that are not dense. Returns the SHA-256 of the bytes it wrote.
std::string write_safetensors(const std::filesystem::path& path, const SafetensorsFile& file);

// Tensors of their own, on the CPU. Throws InputError, naming the tensor and the value, wherever the file strays from
// the format: nothing is guessed, skipped or read past its end. Values are the caller's business: NaN is none of ours.
SafetensorsFile read_safetensors(const std::filesystem::path& path);

}  // namespace bridle
