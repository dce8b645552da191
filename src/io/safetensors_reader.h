// A safetensors file read once, from its beginning to its end: first the header, then, into tensors that the caller has
// made for it, the data. What is hashed is what is copied, whatever happens to the file meanwhile.
#pragma once

#include <string>
#include <vector>

#include "base/checksum.h"
#include "base/files.h"
#include "io/safetensors_header.h"

namespace bridle {

class SafetensorsReader {
 public:
  // Reads the header of `file`, at its beginning, and compares it with the file's size; no data yet. Throws InputError.
  SafetensorsReader(InputFile& file, size_t largest_header);

  const std::vector<SafetensorsEntry>& entries() const {
    return header_.entries;
  }  // in the order of their bytes

  // Once: the bytes of entry i become the values of tensors[i], which has its dtype and shape. Returns the SHA-256 of the whole
  // file.
  std::string read_into(const std::vector<at::Tensor>& tensors);

 private:
  void read_tensor(const at::Tensor& tensor, std::vector<std::byte>& buffer);
  InputFile& file_;
  Sha256 hash_;
  SafetensorsHeader header_;
};

}  // namespace bridle
