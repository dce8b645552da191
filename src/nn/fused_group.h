// A group of sequences on its way through a program: its buffers, what it reads, and the sums that it adds gradients to.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "nn/fused_program.h"

namespace bridle {

// A slot of sums, one place for each operation that has gradients; several groups may add to it, one after another.
class FusedSums {
 public:
  explicit FusedSums(const FusedProgram& program);
  void start();  // a new step
  float* at(FusedSumsPlace place) const { return places_[static_cast<size_t>(place.index)]; }

  bool empty = true;  // no group has been added

 private:
  const FusedProgram& program_;
  Arena memory_;
  std::vector<float*> places_;
};

// What the operations make gradients of: the slots that groups were added to.
class FusedSlots {
 public:
  FusedSlots(const std::vector<std::unique_ptr<FusedSums>>& sums, const Team& team);
  std::vector<const float*> at(FusedSumsPlace place) const;
  // out += factor·Σ slots, for a matrix whose rows stand `stride` apart in the sums, from `first` on.
  void add_rows(FusedSumsPlace place, int64_t stride, float factor, const at::Tensor& out,
                int64_t first = 0) const;
  // The same for a table [heads, offsets] whose sums are [heads, 2·rows], with distance o at rows − 1 − o: the last offset gets
  // all that are farther.
  void add_offsets(FusedSumsPlace place, int64_t rows, float factor, const at::Tensor& out) const;
  const Team& team() const { return team_; }

 private:
  std::vector<const FusedSums*> sums_;
  const Team& team_;
};

// What a group reads: of its own sequences.
struct FusedInputs {
  const int64_t* tokens = nullptr;  // [count, length]; or
  const float* vectors = nullptr;   // [length, size], for a batch of vectors
  const int64_t* targets = nullptr;
  const int32_t* begins = nullptr;  // [count, rows]: where each row's document begins; null: there are none
  const Pass* pass = nullptr;       // margin, dropout, whether statistics are wanted
  int64_t sequence = 0;             // the first one's place in the batch
};

class FusedGroup {
 public:
  FusedGroup(const FusedProgram& program, const FusedShape& shape, Team team, bool gradients);

  // `count` sequences, there and, with sums, back. Loss and hits are sums over their targets.
  struct Loss {
    double loss = 0.0;
    int64_t hits = 0;
  };
  Loss run(const FusedInputs& inputs, int64_t count, FusedSums* sums);

  void start();                                          // a new batch
  double forward_seconds = 0.0, backward_seconds = 0.0;  // since then

  // ---- For operations
  FusedMatrix matrix(FusedBuffer buffer) const;
  float* floats(FusedBuffer buffer) const;
  LinearTask task_for(const FusedValue& value,
                      float factor) const;  // a product that gives the value's gradient
  float value(FusedNumber number) const { return program_.value(number); }
  const float* columns(FusedNumber number) const { return program_.columns(number); }
  const FusedInputs& inputs() const { return inputs_; }
  const FusedShape& shape() const { return shape_; }
  const FusedProducts& products() const { return products_; }
  const StepKernels& kernels() const { return products_.kernels(); }
  const Team& team() const { return products_.team(); }
  int64_t rows() const { return count_ * shape_.rows; }  // of all its sequences, with padding
  int64_t count() const { return count_; }
  FusedSums* sums() const { return sums_; }  // null: nobody asks for gradients
  float* sums_at(FusedSumsPlace place) const { return sums_->at(place); }
  void add_loss(double loss, int64_t hits);
  FusedDrop drop(double share, uint64_t call) const;
  bool wants_statistics() const { return inputs_.pass->statistics != nullptr; }
  void record(const std::string& name, double largest_rms, double largest_entry);
  const std::map<std::string, ActivationStatistics::Layer>& statistics() const { return statistics_; }
  void* scratch() const { return scratch_; }
  void* member_scratch(int member) const { return member_scratch_[static_cast<size_t>(member)]; }

 private:
  template <class Use>
  void each_part(const Use& use) const;

  const FusedProgram& program_;
  FusedShape shape_;
  FusedProducts products_;
  FusedProgram::Layout layout_;
  Arena memory_;
  std::byte* buffers_ = nullptr;
  void* scratch_ = nullptr;
  std::vector<void*> member_scratch_;
  FusedInputs inputs_;
  int64_t count_ = 0;  // sequences in it now
  FusedSums* sums_ = nullptr;
  Loss loss_;
  std::map<std::string, ActivationStatistics::Layer> statistics_;  // since the last run of a batch began
};

}  // namespace bridle
