// Safetensors from bytes that are in memory already: what read_safetensors does with a mapped file.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

#include "bridle/safetensors.h"

namespace bridle {

// The tensors are copies. Throws InputError, naming `path`.
SafetensorsFile decode_safetensors(std::span<const std::byte> bytes, const std::filesystem::path& path);

}  // namespace bridle
