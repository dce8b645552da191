// See bridle/safetensors.h.
#include "bridle/safetensors.h"

#include <ATen/ops/from_blob.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>

#include "base/checksum.h"
#include "base/files.h"
#include "base/nearest.h"
#include "bridle/error.h"
#include "io/safetensors_decode.h"
#include "io/safetensors_header.h"

namespace bridle {
namespace {

using Path = std::filesystem::path;

void check_tensor(const std::string& name, const at::Tensor& tensor, const Path& path) {
  const auto refuse = [&](const std::string& what, const std::string& advice) {
    refuse_safetensors(path, fmt::format("tensor {} {}", in_quotes(name), what), advice);
  };
  if (name == kSafetensorsMetadata) refuse("has the name of the metadata", "choose another name");
  if (!tensor.defined()) refuse("is undefined", "leave it out or give it a value");
  if (tensor.layout() != at::kStrided || tensor.is_meta()) refuse("has no dense values", "make it dense");
  if (!safetensors_from_dtype(tensor.scalar_type()))
    refuse(fmt::format("is of {}, which the format does not know", c10::toString(tensor.scalar_type())),
           fmt::format("convert it to one of {}", kSafetensorsDtypes));
  if (static_cast<size_t>(tensor.dim()) > kSafetensorsMostDimensions)
    refuse(fmt::format("has {} dimensions", tensor.dim()),
           fmt::format("give it at most {}", kSafetensorsMostDimensions));
}

SafetensorsHeader lay_out(const SafetensorsFile& file, const Path& path) {
  SafetensorsHeader header{.metadata = file.metadata, .entries = {}};
  std::set<std::string> names;
  uint64_t offset = 0;
  for (const auto& [name, tensor] : file.tensors) {
    check_tensor(name, tensor, path);
    if (!names.insert(name).second)
      refuse_safetensors(path, fmt::format("tensor {} comes twice", in_quotes(name)),
                         "give each its own name");
    const uint64_t end = offset + tensor.nbytes();
    header.entries.push_back({.name = name,
                              .dtype = tensor.scalar_type(),
                              .shape = tensor.sizes().vec(),
                              .begin = offset,
                              .end = end});
    offset = end;
  }
  return header;
}

std::string header_text(const SafetensorsFile& file, const Path& path) {
  std::string text;
  try {
    text = print_safetensors_header(lay_out(file, path));
  } catch (const nlohmann::json::type_error&) {
    refuse_safetensors(path, "a name or a metadata string is not UTF-8", "names and metadata must be text");
  }
  if (text.size() > kSafetensorsLargestHeader)
    refuse_safetensors(path, fmt::format("the header would take {} bytes", text.size()),
                       fmt::format("the format allows {}: shorten the metadata", kSafetensorsLargestHeader));
  return text;
}

// Writes and hashes the same bytes.
struct HashedOutput {
  OutputFile& file;
  Sha256 hash = {};
  void write(std::span<const std::byte> bytes) {
    hash.update(bytes);
    file.write(bytes);
  }
};

void write_length(HashedOutput& out, uint64_t length) {
  std::array<std::byte, 8> bytes{};
  for (std::byte& byte : bytes) {
    byte = static_cast<std::byte>(length & 0xff);
    length >>= 8;
  }
  out.write(bytes);
}

// Through a buffer of ours: so the code needs no pointer into a tensor, wherever that lives.
void write_tensor(HashedOutput& out, const at::Tensor& tensor) {
  constexpr int64_t kChunk = int64_t{1} << 22;
  const at::Tensor bytes =
      tensor.to(at::kCPU).resolve_neg().contiguous().view({-1}).view(at::kByte);  // [n·element size]
  std::vector<std::byte> buffer(static_cast<size_t>(std::min(kChunk, bytes.numel())));
  for (int64_t offset = 0; offset < bytes.numel(); offset += kChunk) {
    const int64_t size = std::min(kChunk, bytes.numel() - offset);
    at::from_blob(buffer.data(), {size}, at::kByte).copy_(bytes.narrow(0, offset, size));
    out.write(std::span(buffer).first(static_cast<size_t>(size)));
  }
}

}  // namespace

const at::Tensor& SafetensorsFile::at(std::string_view name) const {
  std::vector<std::string> names;
  for (const auto& [known, tensor] : tensors) {
    if (known == name) return tensor;
    names.push_back(known);
  }
  if (names.empty())
    throw InputError("safetensors", fmt::format("no tensor {}: the file has none", in_quotes(name)));
  throw InputError("safetensors", fmt::format("no tensor {}; did you mean {}?", in_quotes(name),
                                              in_quotes(nearest_word(name, names))));
}

std::string write_safetensors(const Path& path, const SafetensorsFile& file) {
  const std::string text = header_text(file, path);
  std::string digest;
  write_file(path, [&](OutputFile& plain) {
    HashedOutput out{plain};
    write_length(out, text.size());
    out.write(std::as_bytes(std::span(text)));
    for (const auto& [name, tensor] : file.tensors) write_tensor(out, tensor);
    digest = out.hash.digest();
  });
  return digest;
}

SafetensorsFile read_safetensors(const Path& path) {
  return decode_safetensors(MappedFile(path).bytes(), path);
}

}  // namespace bridle
