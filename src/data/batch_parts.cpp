// See batch_parts.h.
#include "data/batch_parts.h"

#include <algorithm>

namespace bridle {

std::vector<Batch> batch_parts(const Batch& batch, int64_t count) {
  const int64_t examples = batch.inputs.size(0),
                parts = std::clamp<int64_t>(count, 1, std::max<int64_t>(1, examples));
  std::vector<Batch> result;
  for (int64_t i = 0; i < parts; ++i) {
    const int64_t begin = i * examples / parts, size = (i + 1) * examples / parts - begin;
    result.push_back({batch.inputs.narrow(0, begin, size), batch.targets.narrow(0, begin, size)});
  }
  return result;
}

}  // namespace bridle
