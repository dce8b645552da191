// CRC-32C (Castagnoli, reflected polynomial 0x82F63B78), as record files of TensorFlow have it.
#pragma once

#include <cstdint>
#include <string_view>

namespace bridle {

uint32_t crc32c(std::string_view bytes);

// Rotated right by 15 bits, plus a constant: a checksum that may itself stand in data with checksums.
uint32_t masked_crc32c(std::string_view bytes);

}  // namespace bridle
