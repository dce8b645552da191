// See step_kernels.h.
#include "kernels/step_kernels.h"

namespace bridle {
namespace {

constexpr int64_t kStrip = kStripRows;
constexpr int64_t kLine = 64;  // bytes to which pieces are rounded

}  // namespace

int64_t attention_scratch(int64_t rows, int64_t head_size) {
  const int64_t size = padded(head_size), stride = rows + amx::kBlock;
  const int64_t packed =
      4 * (3 * packed_size(rows, size) + 2 * packed_size(kStrip, size) + packed_size(kStrip, amx::kBlock));
  const int64_t strips = 2 * 4 * amx::kBlock * stride + 2 * 2 * kStrip * stride;
  return packed + strips + 2 * 4 * rows * size + 16 * kLine;
}

const StepKernels& step_kernels(InstructionSet set) {
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
