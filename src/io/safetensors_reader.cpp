#include "io/safetensors_reader.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>

#include "io/safetensors_decode.h"

namespace bridle {

SafetensorsReader::SafetensorsReader(InputFile& file, size_t largest_header) : file_(file) {
  std::vector<std::byte> length(std::min<uint64_t>(file.size(), kSafetensorsLengthBytes));
  file_.read(length);
  std::vector<std::byte> text(safetensors_header_length(length, file.size(), largest_header, file.path()));
  file_.read(text);
  hash_.update(length);
  hash_.update(text);
  header_ = parse_safetensors_header({reinterpret_cast<const char*>(text.data()), text.size()}, file.path());
  sort_and_check_entries(header_.entries, file.size() - length.size() - text.size(), file.path());
}

std::string SafetensorsReader::read_into(const std::vector<at::Tensor>& tensors) {
  const at::NoGradGuard no_gradients;
  std::vector<std::byte> buffer;
  for (const at::Tensor& tensor : tensors) read_tensor(tensor, buffer);
  return hash_.digest();
}

// Through a buffer of ours: so the code needs no pointer into a tensor, and hashes just what it copies.
void SafetensorsReader::read_tensor(const at::Tensor& tensor, std::vector<std::byte>& buffer) {
  constexpr int64_t kChunk = int64_t{1} << 22;
  const at::Tensor bytes = tensor.view({-1}).view(at::kByte);
  for (int64_t offset = 0; offset < bytes.numel(); offset += kChunk) {
    const int64_t size = std::min(kChunk, bytes.numel() - offset);
    buffer.resize(static_cast<size_t>(size));
    file_.read(buffer);
    hash_.update(buffer);
    bytes.narrow(0, offset, size).copy_(at::from_blob(buffer.data(), {size}, at::kByte));
  }
}

}  // namespace bridle
