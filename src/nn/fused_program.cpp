#include "nn/fused_program.h"

#include <algorithm>
#include <numeric>
#include <stdexcept>

namespace bridle {
namespace {

constexpr int64_t kOwnTokens = 512;  // of a group that one thread works on: its activations stay near
constexpr int64_t kSharedTokens =
    4096;                            // of a group that all work on: as many for each reading of large weights
constexpr int64_t kLeastGroups = 8;  // so that no thread waits long for the last one
constexpr int64_t kSlots = 4;
constexpr int64_t kMostSums = int64_t{64} << 20U;  // bytes of a slot; above, one slot has to do

std::vector<FusedProgram::Segment> segments_of(std::vector<size_t> cuts, size_t end) {
  if (cuts.empty() || cuts.back() != end) cuts.push_back(end);
  std::vector<FusedProgram::Segment> segments;
  size_t begin = 0;
  for (const size_t cut : cuts) {
    if (cut > begin) segments.push_back({begin, cut});
    begin = cut;
  }
  return segments;
}

// The times at which a buffer is needed: segments of the way there, then those of the way back.
struct Lifetime {
  size_t first = SIZE_MAX, last = 0;
  void include(size_t time) {
    first = std::min(first, time);
    last = std::max(last, time);
  }
  bool is_used() const { return first != SIZE_MAX; }
  bool meets(const Lifetime& other) const { return first <= other.last && other.first <= last; }
};

}  // namespace

std::vector<int64_t> FusedShape::bounds() const {
  constexpr int64_t shares = 4;  // of what is left, at most one of them at a time
  std::vector<int64_t> all = {0};
  while (all.back() < batch) {
    const int64_t left = batch - all.back();
    all.push_back(all.back() + std::min(left, shared ? group : std::clamp<int64_t>(left / shares, 1, group)));
  }
  return all;
}

int64_t FusedProgram::BufferInfo::bytes(int64_t rows) const {
  return Arena::size_of<std::byte>(rows * value_bytes *
                                   (is_matrix ? FusedMatrix::stride_of(columns) : columns));
}

FusedBuffer FusedProgram::matrix(int64_t columns) {
  buffers_.push_back({padded(columns), true, kernels_.value_bytes()});
  return {static_cast<int>(buffers_.size()) - 1};
}

FusedBuffer FusedProgram::floats(int64_t columns) {
  buffers_.push_back({columns, false, sizeof(float)});
  return {static_cast<int>(buffers_.size()) - 1};
}

FusedSumsPlace FusedProgram::sums(int64_t count, bool from_zero) {
  sums_.push_back({count, from_zero});
  return {static_cast<int>(sums_.size()) - 1};
}

FusedNumber FusedProgram::number(const Param& weight, float slope, float offset) {
  Follower own{weight, slope, offset};
  if (weight.tensor.numel() > 1) own.columns.assign(static_cast<size_t>(padded(weight.tensor.numel())), 0.0F);
  numbers_.push_back(std::move(own));
  return {.index = static_cast<int>(numbers_.size()) - 1};
}

size_t FusedProgram::place_of(const Param& param) const {
  const auto found = std::find_if(params_.begin(), params_.end(),
                                  [&](const Param& own) { return own.tensor.is_same(param.tensor); });
  if (found == params_.end()) throw std::logic_error("a weight that is none of the model's: " + param.name);
  return static_cast<size_t>(found - params_.begin());
}

void FusedProgram::finish() {
  forward_ = segments_of(forward_cuts_, operations_.size());
  backward_ = segments_of(backward_cuts_, operations_.size());
  int64_t bytes = 0;
  for (const auto& operation : operations_)
    for (FusedWeight* weight : operation->weights()) weights_.push_back(weight);
  for (const FusedWeight* weight : weights_) bytes += weight->bytes();
  packed_.reserve(bytes);
  for (FusedWeight* weight : weights_) weight->take(packed_);
}

int64_t FusedProgram::most_left_columns() const {
  int64_t most = 0;
  for (const FusedWeight* weight : weights_) most = std::max(most, weight->left_columns());
  return most;
}

FusedShape FusedProgram::shape_of(int64_t batch, int64_t length) const {
  const int64_t floats = std::accumulate(sums_.begin(), sums_.end(), int64_t{0},
                                         [](int64_t sum, const SumsInfo& own) { return sum + own.count; });
  FusedShape shape{.batch = batch, .length = length, .rows = padded(length)};
  shape.group = std::clamp<int64_t>(kOwnTokens / shape.rows, 1, std::max<int64_t>(1, batch / kLeastGroups));
  shape.shared = floats * int64_t{sizeof(float)} > kMostSums || batch < kSlots * shape.group;
  if (shape.shared) shape.group = std::clamp<int64_t>(kSharedTokens / shape.rows, 1, batch);
  shape.slots = shape.shared ? 1 : kSlots;
  return shape;
}

void FusedProgram::set_rows(int64_t rows) {
  if (rows == rows_) return;
  rows_ = rows;
  for (const auto& operation : operations_) operation->set_rows(*this, rows);
}

void FusedProgram::Follower::read() {
  if (columns.empty()) {
    value = offset + slope * weight.tensor.item<float>();
    return;
  }
  const at::Tensor values = weight.tensor.detach().contiguous();
  const auto* from = static_cast<const float*>(values.data_ptr());
  std::transform(from, from + values.numel(), columns.begin(),
                 [this](float entry) { return offset + slope * entry; });
}

void FusedProgram::pack(const Team& team) {
  for (Follower& own : numbers_) own.read();
  std::vector<std::pair<const FusedWeight*, int64_t>> pieces;
  for (const FusedWeight* weight : weights_)
    for (int64_t piece = 0; piece < weight->pack_pieces(); ++piece) pieces.emplace_back(weight, piece);
  constexpr int64_t together = 16;  // a thread's share is worth its waking up
  const auto count = static_cast<int64_t>(pieces.size());
  team.each((count + together - 1) / together, [&](int64_t item, int) {
    for (int64_t i = item * together; i < std::min(count, (item + 1) * together); ++i)
      pieces[static_cast<size_t>(i)].first->pack_piece(pieces[static_cast<size_t>(i)].second);
  });
  for (const auto& operation : operations_) operation->read_tables(*this);
}

// Greedy: each buffer at the lowest place where it meets none that is needed at the same time. Those of the way back come first, so
// that every layer's stand in the same memory, and it stays in the cache.
FusedProgram::Layout FusedProgram::layout(int64_t rows, bool gradients) const {
  std::vector<Lifetime> lifetimes(buffers_.size());
  std::vector<bool> is_backward(buffers_.size(), true);
  const auto include = [&](const std::vector<FusedBuffer>& used, size_t time) {
    for (const FusedBuffer buffer : used)
      if (buffer) lifetimes[static_cast<size_t>(buffer.index)].include(time);
  };
  for (size_t s = 0; s < forward_.size(); ++s)
    for (size_t i = forward_[s].begin; i < forward_[s].end; ++i) {
      const auto uses = operations_[i]->uses();
      include(uses.forward, s);
      if (gradients && i + 1 == operations_.size()) include(uses.backward, s);  // the loss turns around
      for (const FusedBuffer buffer : uses.forward)
        if (buffer) is_backward[static_cast<size_t>(buffer.index)] = false;
    }
  for (size_t s = 0; gradients && s < backward_.size(); ++s)
    for (size_t i = backward_[s].begin; i < backward_[s].end; ++i)
      include(operations_[i]->uses().backward, forward_.size() + backward_.size() - 1 - s);
  std::vector<size_t> order(buffers_.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    if (is_backward[a] != is_backward[b]) return bool{is_backward[a]};
    return buffers_[a].bytes(rows) > buffers_[b].bytes(rows);
  });
  Layout result{.offsets = std::vector<int64_t>(buffers_.size(), -1)};
  std::vector<size_t> placed;
  for (const size_t own : order) {
    if (!lifetimes[own].is_used()) continue;
    const int64_t bytes = buffers_[own].bytes(rows);
    std::vector<std::pair<int64_t, int64_t>> taken;  // begin and end of those in the way
    for (const size_t other : placed)
      if (lifetimes[own].meets(lifetimes[other]))
        taken.emplace_back(result.offsets[other], result.offsets[other] + buffers_[other].bytes(rows));
    std::sort(taken.begin(), taken.end());
    int64_t offset = 0;
    for (const auto& [begin, end] : taken) {
      if (offset + bytes <= begin) break;
      offset = std::max(offset, end);
    }
    result.offsets[own] = offset;
    result.bytes = std::max(result.bytes, offset + bytes);
    placed.push_back(own);
  }
  return result;
}

}  // namespace bridle
