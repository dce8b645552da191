// See slices.h.
#include "dist/slices.h"

#include <fmt/format.h>

#include "bridle/error.h"

namespace bridle {
namespace {

void add_nodes(const SliceRange& node, const SliceRange& range, std::vector<SliceRange>& nodes) {
  const int64_t end = node.first + node.count, range_end = range.first + range.count;
  if (end <= range.first || node.first >= range_end) return;
  if (node.first >= range.first && end <= range_end) {
    nodes.push_back(node);
    return;
  }
  const auto [first, second] = halves(node);
  add_nodes(first, range, nodes);
  add_nodes(second, range, nodes);
}

}  // namespace

SliceRange slices_of(int64_t all, int64_t rank, int64_t ranks) {
  if (ranks > all)
    throw InputError(
        "train", fmt::format("{} ranks must share at least as many slices, and a step has {}: set "
                             "training.slices={}, or a multiple of it, so that each batch comes in as many",
                             ranks, all, ranks));
  const int64_t first = rank * all / ranks;
  return {first, (rank + 1) * all / ranks - first};
}

std::vector<SliceRange> nodes_of(int64_t all, const SliceRange& range) {
  std::vector<SliceRange> nodes;
  add_nodes({0, all}, range, nodes);
  return nodes;
}

std::pair<SliceRange, SliceRange> halves(const SliceRange& node) {
  const int64_t longer = (node.count + 1) / 2;
  return {{node.first, longer}, {node.first + longer, node.count - longer}};
}

int64_t sums_at_once(int64_t count) {
  int64_t sums = 1;
  for (; count > 1; count = (count + 1) / 2) ++sums;
  return sums;
}

}  // namespace bridle
