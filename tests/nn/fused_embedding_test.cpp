#include "nn/fused_embedding.h"

#include <gtest/gtest.h>

#include <cstring>

#include "nn/fused_group.h"
#include "support.h"

namespace bridle {
namespace {

float value(const FusedMatrix& matrix, int64_t row, int64_t column) {
  const uint32_t bits = uint32_t{reinterpret_cast<const Bfloat16*>(matrix.row(row))[column]} << 16U;
  float result;
  std::memcpy(&result, &bits, 4);
  return result;
}

TEST(FusedVectors, ArePaddedWithZeros) {
  for (const int64_t size : {20, 32}) {
    FusedProgram program({}, step_kernels());
    const FusedBuffer out = program.matrix(size);
    program.add(std::make_unique<FusedVectors>(out, size));
    program.finish();
    const FusedShape shape{.batch = 1, .length = 40, .rows = 64, .group = 1, .shared = true, .slots = 1};
    FusedGroup group(program, shape, Team(2), false);
    const at::Tensor x = test::normal({40, size}, 1, at::kFloat);
    const Pass pass;
    group.run({.vectors = static_cast<const float*>(x.data_ptr()), .pass = &pass}, 1, nullptr);
    const FusedMatrix seen = group.matrix(out);
    for (int64_t row = 0; row < 64; ++row)
      for (int64_t column = 0; column < 32; ++column) {
        const bool inside = row < 40 && column < size;
        EXPECT_EQ(value(seen, row, column), inside ? x[row][column].to(at::kBFloat16).item<float>() : 0.0F);
      }
  }
}

TEST(FusedEmbedding, LooksUpRowsAndAddsPositions) {
  const Param table{.name = "table", .tensor = test::normal({7, 40}, 1, at::kFloat)};
  const Param positions{.name = "positions", .tensor = test::normal({5, 40}, 2, at::kFloat)};
  FusedProgram program({table, positions}, step_kernels());
  const FusedBuffer stream = program.floats(64), copy = program.matrix(40);
  program.add(std::make_unique<FusedEmbedding>(
      program,
      FusedEmbeddingOptions{.table = table, .positions = positions, .stream = stream, .copy = copy}));
  program.finish();
  program.set_rows(32);
  const FusedShape shape{.batch = 2, .length = 5, .rows = 32, .group = 2, .shared = true, .slots = 1};
  FusedGroup group(program, shape, Team(1), false);
  const std::vector<int64_t> tokens = {3, 1, 4, 1, 5, 6, 2, 6, 5, 3};
  const Pass pass;
  group.run({.tokens = tokens.data(), .pass = &pass}, 2, nullptr);
  for (int64_t sequence = 0; sequence < 2; ++sequence)
    for (int64_t t = 0; t < 32; ++t)
      for (int64_t i = 0; i < 64; ++i) {
        const bool inside = t < 5 && i < 40;
        const float expected =
            inside ? table.tensor[tokens[static_cast<size_t>(sequence * 5 + t)]][i].item<float>() +
                         positions.tensor[t][i].item<float>()
                   : 0.0F;
        EXPECT_EQ(group.floats(stream)[(sequence * 32 + t) * 64 + i], expected);
      }
}

}  // namespace
}  // namespace bridle
