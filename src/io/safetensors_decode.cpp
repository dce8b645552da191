// See safetensors_decode.h. Every place is checked before a tensor is allocated, so no more is ever allocated than the
// file is long.
#include "io/safetensors_decode.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <tuple>

#include "io/safetensors_header.h"

namespace bridle {
namespace {

using Bytes = std::span<const std::byte>;
using Path = std::filesystem::path;

static_assert(std::endian::native == std::endian::little, "tensors are copied as they lie in the file");

void check_entry(const SafetensorsEntry& entry, uint64_t size, const Path& path) {
  const auto refuse = [&](const std::string& what) {
    refuse_safetensors(path, fmt::format("tensor {}: {}", in_quotes(entry.name), what));
  };
  const std::string place = fmt::format("data_offsets [{}, {}]", entry.begin, entry.end);
  if (entry.begin > entry.end) refuse(place + " end before they begin");
  if (entry.end > size) refuse(fmt::format("{} go past the {} bytes of data", place, size));
  const std::string shape = fmt::format("shape [{}]", fmt::join(entry.shape, ", "));
  const std::optional<uint64_t> count = entry.byte_count();
  if (!count) refuse(shape + " has more bytes than 2^63 - 1");
  if (entry.end - entry.begin != *count)
    refuse(fmt::format("{} hold {} bytes, but {} of {} takes {}", place, entry.end - entry.begin, shape,
                       safetensors_from_dtype(entry.dtype).value(), *count));
}

// Copied byte by byte, as the file need not align a tensor to its elements.
at::Tensor copy_tensor(const SafetensorsEntry& entry, Bytes data, const Path& path) {
  at::Tensor tensor = at::empty(entry.shape, at::TensorOptions(entry.dtype));
  if (tensor.numel() == 0) return tensor;
  const Bytes source = data.subspan(entry.begin, entry.end - entry.begin);
  const at::Tensor bytes = at::from_blob(const_cast<std::byte*>(source.data()),  // NOLINT: only read
                                         {static_cast<int64_t>(source.size())}, at::kByte);
  if (entry.dtype == at::kBool && bytes.gt(1).any().item<bool>())  // C++ gives such a bool no meaning
    refuse_safetensors(
        path, fmt::format("tensor {}: a BOOL holds a byte other than 0 and 1", in_quotes(entry.name)));
  tensor.view({-1}).view(at::kByte).copy_(bytes);
  return tensor;
}

}  // namespace

size_t safetensors_header_length(Bytes first, uint64_t size, size_t largest, const Path& path) {
  if (size < kSafetensorsLengthBytes)
    refuse_safetensors(path, fmt::format("{} bytes, but the header's length alone takes 8", size));
  uint64_t length = 0;
  for (size_t i = kSafetensorsLengthBytes; i-- > 0;)
    length = length << 8 | std::to_integer<uint64_t>(first[i]);
  if (length > largest)
    refuse_safetensors(
        path, fmt::format("a header of {} bytes, more than the {} that are allowed", length, largest));
  if (length > size - kSafetensorsLengthBytes)
    refuse_safetensors(path, fmt::format("a header of {} bytes, but only {} follow", length,
                                         size - kSafetensorsLengthBytes));
  return length;
}

// In the order of their bytes, each entry must begin where the one before ends; empty ones stand before others.
void sort_and_check_entries(std::vector<SafetensorsEntry>& entries, uint64_t size, const Path& path) {
  for (const SafetensorsEntry& entry : entries) check_entry(entry, size, path);
  std::stable_sort(entries.begin(), entries.end(), [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
    return std::tie(a.begin, a.end) < std::tie(b.begin, b.end);
  });
  uint64_t offset = 0;
  for (const SafetensorsEntry& entry : entries) {
    if (entry.begin != offset)
      refuse_safetensors(
          path, fmt::format("tensor {} begins at byte {}, {} byte {}, where the one before it ends",
                            in_quotes(entry.name), entry.begin,
                            entry.begin < offset ? "overlapping the bytes before" : "leaving a hole after",
                            offset));
    offset = entry.end;
  }
  if (offset != size) refuse_safetensors(path, fmt::format("{} bytes follow the last tensor", size - offset));
}

SafetensorsFile decode_safetensors(Bytes bytes, const Path& path) {
  const size_t length = safetensors_header_length(bytes, bytes.size(), kSafetensorsLargestHeader, path);
  const Bytes text = bytes.subspan(kSafetensorsLengthBytes, length);
  SafetensorsHeader header =
      parse_safetensors_header({reinterpret_cast<const char*>(text.data()), text.size()}, path);
  const Bytes data = bytes.subspan(kSafetensorsLengthBytes + length);
  sort_and_check_entries(header.entries, data.size(), path);
  SafetensorsFile file{.metadata = std::move(header.metadata), .tensors = {}};
  for (const SafetensorsEntry& entry : header.entries)
    file.tensors.emplace_back(entry.name, copy_tensor(entry, data, path));
  return file;
}

}  // namespace bridle
