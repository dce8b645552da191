#include "kernels/dropout_mask.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>

#include "kernels/dropout_hash.h"
#include "kernels/step_kernels.h"

namespace bridle {

at::Tensor dropout_mask(int64_t sequences, int64_t length, int64_t columns, uint64_t key, double share) {
  at::Tensor mask = at::empty({sequences, length, columns}, at::kFloat);
  auto* data = static_cast<float*>(mask.data_ptr());
  const uint32_t threshold = dropout_threshold(share);
  at::parallel_for(0, sequences * length, 16, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const uint32_t row = dropout_row(key, static_cast<uint64_t>(i / length * padded(length) + i % length));
      for (int64_t j = 0; j < columns; ++j)
        data[i * columns + j] = dropout_hash(row, static_cast<uint32_t>(j)) < threshold ? 0.0F : 1.0F;
    }
  });
  return mask;
}

}  // namespace bridle
