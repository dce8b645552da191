#include "kernels/arena.h"

#include <gtest/gtest.h>

#include <new>

namespace bridle {
namespace {

TEST(Arena, GivesOutZeroedPiecesOnTheirOwnCacheLines) {
  Arena arena;
  arena.reserve(Arena::size_of<float>(3) + Arena::size_of<char>(65));
  auto* first = arena.take<float>(3);
  auto* second = arena.take<char>(65);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(first) % 64, 0U);
  EXPECT_EQ(reinterpret_cast<char*>(first) + 64, second);
  EXPECT_EQ(first[2], 0.0F);
  EXPECT_EQ(second[64], 0);
}

TEST(Arena, RefusesMoreThanWasReserved) {
  Arena arena;
  arena.reserve(1);
  const int64_t all = int64_t{2} << 20;  // a whole page
  EXPECT_NO_THROW(arena.take<char>(all));
  EXPECT_THROW(arena.take<char>(1), std::bad_alloc);
  arena.reserve(1);
  EXPECT_NO_THROW(arena.take<char>(all));
}

}  // namespace
}  // namespace bridle
