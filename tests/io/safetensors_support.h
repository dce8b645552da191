// Safetensors files put together by hand, right or wrong.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace bridle::test {

// u64 length | header | data
inline std::string safetensors_bytes(std::string_view header, std::string_view data) {
  std::string bytes;
  for (uint64_t rest = header.size(), i = 0; i < 8; ++i, rest >>= 8) bytes += static_cast<char>(rest & 0xff);
  return bytes.append(header).append(data);
}

inline std::span<const std::byte> as_bytes(std::string_view text) { return std::as_bytes(std::span(text)); }

}  // namespace bridle::test
