// A step's slices: parts of its batches of one fixed shape, from the recipe. Ranks take runs of them, and what slices give is added in
// one fixed tree, each half first and the first half the longer one: the sums have the same bits with any number of ranks. Where
// the number of ranks is a power of two that divides that of the slices, each rank holds one node of the tree.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace bridle {

struct SliceRange {
  int64_t first = 0;
  int64_t count = 1;
  bool operator==(const SliceRange&) const = default;
};

// Of so many slices those of a rank: runs whose lengths differ by one at most. There are at least as many slices as ranks.
SliceRange slices_of(int64_t all, int64_t rank, int64_t ranks);

// The largest nodes of the tree over all slices that lie within the range, in their order: together they are the range.
std::vector<SliceRange> nodes_of(int64_t all, const SliceRange& range);

std::pair<SliceRange, SliceRange> halves(const SliceRange& node);  // of a node with two slices or more

// How many sums are held at once while so many slices are added one by one.
int64_t sums_at_once(int64_t count);

// The sum of a node: what is known of it, else its halves', the second added to the first.
//   known(SliceRange) → std::optional<Value>, something for single slices at the latest;  add_(Value&, Value&&)
template <class Value, class Known, class Add>
Value sum_in_tree(const SliceRange& node, const Known& known, const Add& add_) {
  if (std::optional<Value> value = known(node)) return *std::move(value);
  const auto [first, second] = halves(node);
  Value sum = sum_in_tree<Value>(first, known, add_);
  add_(sum, sum_in_tree<Value>(second, known, add_));
  return sum;
}

}  // namespace bridle
