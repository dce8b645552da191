// See step_kernels.h.
#include "kernels/step_kernels.h"

namespace bridle {
namespace {

constexpr int64_t kStrip = kStripRows;
constexpr int64_t kLine = 64;  // bytes to which pieces are rounded

}  // namespace

int64_t attention_scratch(int64_t rows, int64_t head_size, int64_t value_bytes, int64_t value_size) {
  const int64_t size = padded(head_size), stride = rows + amx::kBlock;
  const int64_t values = value_size == 0 ? size : padded(value_size);
  const int64_t tokens = rows * (2 * size + values) + kStrip * (size + values);
  const int64_t packed = value_bytes * (tokens + kStrip * amx::kBlock);
  const int64_t strips = 2 * 4 * amx::kBlock * stride + 2 * value_bytes * kStrip * stride;
  return packed + strips + 16 * kLine;
}

int64_t mix_scratch(int64_t rows, int64_t size, int64_t value_bytes) {
  const int64_t stride = rows + amx::kBlock;
  const int64_t packed = value_bytes * (rows * size + kStrip * size + kStrip * amx::kBlock);
  return packed + 4 * amx::kBlock * stride + value_bytes * kStrip * stride + 8 * kLine;
}

namespace {

const StepKernels& float32_kernels(InstructionSet set) {
  switch (set) {
    case InstructionSet::amx:
    case InstructionSet::avx512_bf16:
    case InstructionSet::avx512:
      return step_kernels_float32_avx512();
    case InstructionSet::avx2:
      return step_kernels_float32_avx2();
    case InstructionSet::plain:
      break;
  }
  return step_kernels_float32_plain();
}

}  // namespace

const StepKernels& step_kernels(ValueType values, InstructionSet set) {
  if (values == ValueType::float32) return float32_kernels(set);
  switch (set) {
    case InstructionSet::amx:
      return step_kernels_amx();
    case InstructionSet::avx512_bf16:
      return step_kernels_avx512_bf16();
    case InstructionSet::avx512:
      return step_kernels_avx512();
    case InstructionSet::avx2:
      return step_kernels_avx2();
    case InstructionSet::plain:
      break;
  }
  return step_kernels_plain();
}

}  // namespace bridle
