// Safetensors from bytes that are in memory already: what read_safetensors does with a mapped file. And the checks of a
// header against the file's size, which safetensors_reader.h makes too.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

#include "bridle/safetensors.h"
#include "io/safetensors_header.h"

namespace bridle {

// The tensors are copies. Throws InputError, naming `path`.
SafetensorsFile decode_safetensors(std::span<const std::byte> bytes, const std::filesystem::path& path);

constexpr size_t kSafetensorsLengthBytes = 8;

// The header's length from the first bytes of a file of `size` bytes. Throws InputError unless the file has room for it, and for
// more than `largest` bytes.
size_t safetensors_header_length(std::span<const std::byte> first, uint64_t size, size_t largest,
                                 const std::filesystem::path& path);

// Sorts entries by their place. Throws InputError unless they fill the `size` bytes of data without gaps, each as long as its
// shape.
void sort_and_check_entries(std::vector<SafetensorsEntry>& entries, uint64_t size,
                            const std::filesystem::path& path);

}  // namespace bridle
