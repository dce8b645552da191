#include "nn/fused_group.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "kernels/dropout_hash.h"
#include "nn/dropout.h"

namespace bridle {
namespace {

constexpr int64_t kPartRows = 256;  // that go through a segment together

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

FusedSums::FusedSums(const FusedProgram& program) : program_(program) {
  int64_t bytes = 0;
  for (const auto& info : program.sums_infos()) bytes += Arena::size_of<float>(info.count);
  memory_.reserve(bytes);
  for (const auto& info : program.sums_infos()) places_.push_back(memory_.take<float>(info.count));
}

void FusedSums::start() {
  empty = true;
  for (size_t i = 0; i < places_.size(); ++i)
    if (program_.sums_infos()[i].from_zero) std::fill_n(places_[i], program_.sums_infos()[i].count, 0.0F);
}

FusedSlots::FusedSlots(const std::vector<std::unique_ptr<FusedSums>>& sums, const Team& team) : team_(team) {
  for (const auto& own : sums)
    if (!own->empty) sums_.push_back(own.get());
}

std::vector<const float*> FusedSlots::at(FusedSumsPlace place) const {
  std::vector<const float*> slots;
  for (const FusedSums* own : sums_) slots.push_back(own->at(place));
  return slots;
}

void FusedSlots::add_rows(FusedSumsPlace place, int64_t stride, float factor, const at::Tensor& out,
                          int64_t first) const {
  auto* data = static_cast<float*>(out.data_ptr());
  const std::vector<const float*> slots = at(place);
  const int64_t rows = out.size(0), columns = out.size(1);
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t i = 0; i < columns; ++i) {
      float sum = 0.0F;
      for (const float* slot : slots) sum += slot[first + row * stride + i];
      data[row * columns + i] += factor * sum;
    }
  }
}

void FusedSlots::add_offsets(FusedSumsPlace place, int64_t rows, float factor, const at::Tensor& out) const {
  auto* data = static_cast<float*>(out.data_ptr());
  const std::vector<const float*> slots = at(place);
  const int64_t offsets = out.size(1);
  for (int64_t head = 0; head < out.size(0); ++head)
    for (const float* slot : slots)
      for (int64_t offset = 0; offset < rows; ++offset)
        data[head * offsets + std::min(offset, offsets - 1)] +=
            factor * slot[head * 2 * rows + rows - 1 - offset];
}

FusedGroup::FusedGroup(const FusedProgram& program, const FusedShape& shape, Team team, bool gradients)
    : program_(program),
      shape_(shape),
      products_(program.kernels(), team, gradients ? program.most_left_columns() : 0),
      layout_(program.layout(shape.group * shape.rows, gradients)) {
  int64_t own = 0, of_member = 0;
  for (const auto& operation : program.operations()) {
    own = std::max(own, operation->scratch(shape));
    of_member = std::max(of_member, operation->member_scratch(shape));
  }
  memory_.reserve(Arena::size_of<std::byte>(layout_.bytes) + Arena::size_of<std::byte>(own) +
                  team.threads() * Arena::size_of<std::byte>(of_member));
  buffers_ = memory_.take<std::byte>(layout_.bytes);
  scratch_ = memory_.take<std::byte>(own);
  for (int member = 0; member < team.threads(); ++member)
    member_scratch_.push_back(memory_.take<std::byte>(of_member));
}

FusedMatrix FusedGroup::matrix(FusedBuffer buffer) const {
  const auto i = static_cast<size_t>(buffer.index);
  const int64_t columns = program_.buffers()[i].columns;
  return {buffers_ + layout_.offsets[i], columns, FusedMatrix::stride_of(columns), kernels().value_bytes()};
}

float* FusedGroup::floats(FusedBuffer buffer) const {
  return reinterpret_cast<float*>(buffers_ + layout_.offsets[static_cast<size_t>(buffer.index)]);
}

LinearTask FusedGroup::task_for(const FusedValue& value, float factor) const {
  const FusedMatrix out = matrix(value.gradient);
  LinearTask task{.epilogue = value.epilogue,
                  .factor = factor * value.gain,
                  .out = out.data,
                  .out_stride = out.stride,
                  .keep = program_.value(value.keep)};
  if (value.slope) task.slope = matrix(value.slope).data;
  task.keeps = program_.columns(value.keep);
  if (task.keeps != nullptr) task.epilogue = Epilogue::columns;
  if (value.stream) {
    task.stream = floats(value.stream);
    task.stream_stride = out.columns;
  }
  return task;
}

void FusedGroup::start() {
  forward_seconds = backward_seconds = 0.0;
  statistics_.clear();
}

FusedDrop FusedGroup::drop(double share, uint64_t call) const {
  const Pass& pass = *inputs_.pass;
  if (!pass.training || share == 0.0) return {};
  return {dropout_key(pass.dropout, pass.dropout_calls + call), dropout_threshold(share),
          static_cast<float>(1.0 / (1.0 - share))};
}

// NaN wins: it must be seen.
void FusedGroup::record(const std::string& name, double largest_rms, double largest_entry) {
  const auto larger = [](double a, double b) { return b > a || std::isnan(b) ? b : a; };
  ActivationStatistics::Layer& layer = statistics_[name];
  layer.largest_rms = larger(layer.largest_rms, largest_rms);
  layer.largest_entry = larger(layer.largest_entry, largest_entry);
}

void FusedGroup::add_loss(double loss, int64_t hits) {
  loss_.loss += loss;
  loss_.hits += hits;
}

// A thread that has the group for itself takes it a few rows at a time, so that what one kernel writes the next one finds in the
// cache.
template <class Use>
void FusedGroup::each_part(const Use& use) const {
  const int64_t together = shape_.shared ? count_ : std::max<int64_t>(1, kPartRows / shape_.rows);
  for (int64_t sequence = 0; sequence < count_; sequence += together) {
    const int64_t count = std::min(together, count_ - sequence);
    use(FusedPart{sequence, count, sequence * shape_.rows, count * shape_.rows});
  }
}

FusedGroup::Loss FusedGroup::run(const FusedInputs& inputs, int64_t count, FusedSums* sums) {
  inputs_ = inputs;
  count_ = count;
  sums_ = sums;
  loss_ = {};
  const auto operations = program_.operations();
  const auto start = Clock::now();
  for (const auto& [begin, end] : program_.forward_segments())
    each_part([&](const FusedPart& part) {
      for (size_t i = begin; i < end; ++i) operations[i]->forward(*this, part);
    });
  forward_seconds += seconds_since(start);
  if (sums == nullptr) return loss_;
  const auto middle = Clock::now();
  const auto& segments = program_.backward_segments();
  for (auto segment = segments.rbegin(); segment != segments.rend(); ++segment) {
    each_part([&](const FusedPart& part) {
      for (size_t i = segment->end; i-- > segment->begin;) operations[i]->backward(*this, part);
    });
    for (size_t i = segment->begin; i < segment->end; ++i) operations[i]->add_gradients(*this);
  }
  sums->empty = false;
  backward_seconds += seconds_since(middle);
  return loss_;
}

}  // namespace bridle
