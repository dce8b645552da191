#include "base/crc32c.h"

#include <gtest/gtest.h>

#include <string>

namespace bridle {
namespace {

// The vectors of RFC 3720, B.4, and the usual check value.
TEST(Crc32c, GivesTheKnownValues) {
  EXPECT_EQ(crc32c("123456789"), 0xE3069283U);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAU);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62A8AB43U);
  EXPECT_EQ(crc32c(""), 0U);
}

TEST(Crc32c, IsMaskedByARotationAndASum) {
  const uint32_t crc = crc32c("foo");
  EXPECT_EQ(masked_crc32c("foo"), ((crc >> 15U) | (crc << 17U)) + 0xA282EAD8U);
  EXPECT_NE(masked_crc32c("foo"), crc);
}

}  // namespace
}  // namespace bridle
