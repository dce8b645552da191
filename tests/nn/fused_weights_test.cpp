#include "nn/fused_weights.h"

#include <ATen/ops/empty.h>
#include <gtest/gtest.h>

#include "support.h"

namespace bridle {
namespace {

// A gradient [out, in] as sums of one slot have it.
std::vector<float> as_sums(const std::vector<at::Tensor>& gradients, FusedWeight::Left left, int64_t in,
                           int64_t part_out) {
  std::vector<float> sums(static_cast<size_t>(in * part_out) * gradients.size());
  const int64_t in_blocks = in / 32, out_blocks = part_out / 32 * static_cast<int64_t>(gradients.size());
  for (size_t part = 0; part < gradients.size(); ++part) {
    for (int64_t i = 0; i < gradients[part].size(0); ++i) {
      for (int64_t j = 0; j < gradients[part].size(1); ++j) {
        const int64_t row = static_cast<int64_t>(part) * part_out + i;
        const bool in_left = left == FusedWeight::Left::in;
        const int64_t block = in_left ? row / 32 * in_blocks + j / 32 : j / 32 * out_blocks + row / 32;
        const int64_t inside = in_left ? j % 32 * 32 + row % 32 : row % 32 * 32 + j % 32;
        sums[static_cast<size_t>(block * 1024 + inside)] = gradients[part][i][j].item<float>();
      }
    }
  }
  return sums;
}

TEST(FusedWeight, SumsOfSlotsBecomeGradientsOfItsParts) {
  const std::vector<at::Tensor> weights = {test::normal({40, 50}, 1, at::kFloat),
                                           test::normal({40, 50}, 2, at::kFloat)};
  for (const auto left : {FusedWeight::Left::in, FusedWeight::Left::out}) {
    const FusedWeight weight(step_kernels_plain(), weights, left);
    EXPECT_EQ(weight.in(), 64);
    EXPECT_EQ(weight.out(), 128);
    std::vector<at::Tensor> first, second, seen;
    for (uint64_t seed = 3; seed < 5; ++seed) {
      first.push_back(test::normal({40, 50}, seed, at::kFloat));
      second.push_back(test::normal({40, 50}, seed + 10, at::kFloat));
      seen.push_back(at::empty({40, 50}, at::kFloat));
    }
    const std::vector<float> a = as_sums(first, left, 64, 64), b = as_sums(second, left, 64, 64);
    weight.unpack(Team(2), {a.data(), b.data()}, 0.5F, seen);
    for (size_t part = 0; part < 2; ++part)
      EXPECT_LT(test::largest_difference(seen[part], first[part].add(second[part]).mul(0.5)), 1e-6);
  }
}

TEST(FusedWeight, PacksForBothDirections) {
  const std::vector<at::Tensor> weights = {test::normal({40, 50}, 1, at::kFloat),
                                           test::normal({40, 50}, 2, at::kFloat)};
  FusedWeight weight(step_kernels_plain(), weights, FusedWeight::Left::in);
  Arena arena;
  arena.reserve(weight.bytes());
  weight.take(arena);
  for (int64_t piece = 0; piece < weight.pack_pieces(); ++piece) weight.pack_piece(piece);
  const auto entry = [](const uint32_t* packed, int64_t line, int64_t term, int64_t depth) {
    const uint32_t word = packed[(line / 32 * (depth / 32) + term / 32) * 512 + line % 32 / 16 * 256 +
                                 term % 32 / 2 * 16 + line % 16];
    const uint32_t bits = term % 2 == 0 ? word << 16 : word & 0xffff0000U;
    float value;
    std::memcpy(&value, &bits, 4);
    return value;
  };
  for (const int64_t part : {0, 1}) {
    for (const int64_t row : {0, 33, 39, 45}) {
      for (const int64_t column : {0, 31, 49, 60}) {
        const bool inside = row < 40 && column < 50;
        const float value =
            inside ? weights[static_cast<size_t>(part)][row][column].to(at::kBFloat16).item<float>() : 0.0F;
        EXPECT_EQ(entry(weight.forward(), part * 64 + row, column, 64), value);
        EXPECT_EQ(entry(weight.backward(), column, part * 64 + row, 128), value);
      }
    }
  }
}

}  // namespace
}  // namespace bridle
