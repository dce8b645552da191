#include "kernels/matmul_amx.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <vector>

#include "kernels/cpu.h"

namespace bridle::amx {
namespace {

uint16_t narrow(float value) { return static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16); }
float widen(uint32_t bits) { return std::bit_cast<float>(bits << 16); }

// Small integers, exact in bfloat16, different for neighbours.
float entry(int64_t line, int64_t term) { return static_cast<float>((line * 37 + term * 11) % 127 - 63); }

class MatmulAmxTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_bfloat16_products()) GTEST_SKIP() << "no products of bfloat16 on this machine";
  }

  struct Memory {
    std::vector<float> wide;
    std::vector<uint16_t> narrow_copy;
    Factor factor;
  };

  static Memory memory(Element element, bool along_depth, int64_t lines, int64_t depth) {
    Memory m;
    const int64_t stride = (along_depth ? depth : lines) + 3;
    m.wide.resize(static_cast<size_t>((along_depth ? lines : depth) * stride), 99.0f);
    for (int64_t line = 0; line < lines; ++line) {
      for (int64_t term = 0; term < depth; ++term) {
        const int64_t at = along_depth ? line * stride + term : term * stride + line;
        m.wide[static_cast<size_t>(at)] = entry(line, term);
      }
    }
    for (const float value : m.wide) m.narrow_copy.push_back(narrow(value));
    const void* data = m.narrow_copy.data();
    if (element == Element::float32) data = m.wide.data();
    m.factor = {data, element, along_depth, lines, depth, stride};
    return m;
  }
};

struct alignas(64) Packed {
  uint32_t pairs[3 * kPairsPerStep];
};
struct alignas(64) Sums {
  float values[kSums];
  float& at(int64_t row, int64_t column) {
    return values[(row / 16 * 2 + column / 16) * 256 + row % 16 * 16 + column % 16];
  }
  float at(int64_t row, int64_t column) const { return const_cast<Sums*>(this)->at(row, column); }
};

TEST_F(MatmulAmxTest, PackingPutsEveryTermInItsPlaceAndZerosOutside) {
  for (const Element element : {Element::float32, Element::bfloat16}) {
    for (const bool along_depth : {false, true}) {
      for (const Side side : {Side::left, Side::right}) {
        for (const auto& [lines, depth] :
             {std::pair<int64_t, int64_t>{64, 128}, {35, 97}, {47, 64}, {33, 33}}) {
          const Memory m = memory(element, along_depth, lines, depth);
          Packed packed;
          pack(m.factor, side, 32, 32, 3, packed.pairs);
          for (int64_t i = 0; i < 32; ++i) {
            for (int64_t term = 0; term < 96; ++term) {
              const int64_t line = i % 16, pair = term % 32 / 2, tile = term / 32 * 2 + i / 16;
              const int64_t at = side == Side::left ? line * 16 + pair : pair * 16 + line;
              const uint32_t word = packed.pairs[tile * 256 + at];
              const float expected = 32 + i < lines && 32 + term < depth ? entry(32 + i, 32 + term) : 0.0f;
              ASSERT_EQ(widen(term % 2 == 0 ? word & 0xffffu : word >> 16), expected) << i << " " << term;
            }
          }
        }
      }
    }
  }
}

TEST_F(MatmulAmxTest, BlocksMultiplyAndAccumulate) {
  const Memory a = memory(Element::float32, true, 32, 96), b = memory(Element::bfloat16, false, 32, 96);
  Packed left, right;
  pack(a.factor, Side::left, 0, 0, 3, left.pairs);
  pack(b.factor, Side::right, 0, 0, 3, right.pairs);
  Sums sums;
  const TileScope tiles;
  for (const int64_t times : {1, 2}) {
    multiply(left.pairs, right.pairs, 3, times > 1, sums.values);
    for (int64_t row = 0; row < 32; ++row) {
      for (int64_t column = 0; column < 32; ++column) {
        float expected = 0.0f;
        for (int64_t term = 0; term < 96; ++term) expected += entry(row, term) * entry(column, term);
        ASSERT_EQ(sums.at(row, column), static_cast<float>(times) * expected) << row << " " << column;
      }
    }
  }
}

TEST_F(MatmulAmxTest, TransposingABlockExchangesRowsAndColumns) {
  Sums sums, before;
  for (int64_t i = 0; i < kSums; ++i) sums.values[i] = before.values[i] = static_cast<float>(i);
  transpose(sums.values);
  for (int64_t row = 0; row < 32; ++row) {
    for (int64_t column = 0; column < 32; ++column) ASSERT_EQ(sums.at(row, column), before.at(column, row));
  }
}

TEST_F(MatmulAmxTest, WritingStaysInsideTheTarget) {
  Sums sums;
  for (int64_t i = 0; i < kSums; ++i) sums.values[i] = static_cast<float>(i % 61);
  constexpr int64_t stride = 40;
  for (const auto& [rows, columns] : {std::pair<int64_t, int64_t>{32, 32}, {1, 1}, {17, 15}, {31, 33}}) {
    std::vector<float> out(36 * stride, -1.0f), addend(36 * stride, 3.0f);
    const Target target{out.data(),    Element::float32, rows,   columns, stride, 2.0f,
                        addend.data(), Element::float32, stride, 5.0f};
    write(sums.values, target, 0, 0);
    for (int64_t i = 0; i < 36 * stride; ++i) {
      const int64_t row = i / stride, column = i % stride;
      const bool inside = row < rows && column < std::min<int64_t>(columns, 32);
      ASSERT_EQ(out[static_cast<size_t>(i)], inside ? 2.0f * sums.at(row, column) + 15.0f : -1.0f);
    }
  }
}

// Sums as rows of whole numbers that bfloat16 holds.
Sums numbered() {
  Sums sums;
  for (int64_t row = 0; row < kBlock; ++row)
    for (int64_t column = 0; column < kBlock; ++column) sums.at(row, column) = entry(row, column);
  return sums;
}

TEST_F(MatmulAmxTest, BlocksOfResultsBecomeFactorsOfTheNextProduct) {
  const Sums sums = numbered();
  Packed left, right, expected;
  const Memory as_left = memory(Element::float32, true, kBlock, kBlock);
  pack(as_left.factor, Side::left, 0, 0, 1, expected.pairs);
  pack_left(sums.values, left.pairs);
  EXPECT_TRUE(std::equal(left.pairs, left.pairs + kPairsPerStep, expected.pairs));
  pack(as_left.factor, Side::right, 0, 0, 1, expected.pairs);
  transpose(left.pairs, right.pairs);
  EXPECT_TRUE(std::equal(right.pairs, right.pairs + kPairsPerStep, expected.pairs));
}

TEST_F(MatmulAmxTest, BlocksAreAddedFromEitherPacking) {
  const Memory lines = memory(Element::float32, true, kBlock, kBlock);  // entry(line, term)
  const Memory columns =
      memory(Element::float32, false, kBlock, kBlock);  // as right factor: entry(column, row)
  Packed left, right;
  pack(lines.factor, Side::left, 0, 0, 1, left.pairs);
  pack(columns.factor, Side::right, 0, 0, 1, right.pairs);
  Sums from_left = numbered(), from_right = numbered();
  add_left(left.pairs, 0.5F, 2.0F, from_left.values);
  add_right(right.pairs, 0.5F, 2.0F, from_right.values);
  for (int64_t row = 0; row < kBlock; ++row) {
    for (int64_t column = 0; column < kBlock; ++column) {
      EXPECT_EQ(from_left.at(row, column), 2.5F * entry(row, column));
      EXPECT_EQ(from_right.at(row, column), 2.0F * entry(row, column) + 0.5F * entry(column, row));
    }
  }
}

TEST_F(MatmulAmxTest, SumsOfBlocksAndTheirTrace) {
  struct alignas(64) {
    Sums blocks[3] = {numbered(), numbered(), numbered()};
  } three;
  Sums sum;
  add_up(three.blocks[0].values, 3, kSums, 0.5F, sum.values);
  double expected = 0.0;
  for (int64_t row = 0; row < kBlock; ++row) {
    expected += static_cast<double>(entry(row, row));
    for (int64_t column = 0; column < kBlock; ++column)
      EXPECT_EQ(sum.at(row, column), 1.5F * entry(row, column));
  }
  EXPECT_EQ(trace(numbered().values), expected);
}

}  // namespace
}  // namespace bridle::amx
