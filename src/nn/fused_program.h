// A fused pass: forward, loss and backward as a list of operations on numbered buffers, built once from a model's modules (their
// `fuse`) and run by a loop (nn/fused_pass.h). Products of bfloat16 or float32 values with float32 sums and a float32 residual
// stream, in kernels that do what stands around a product while it is in the cache.
//
// Operations run segment by segment, and within a segment part by part, so that what one writes the next one finds in the cache; a
// part is a few whole sequences. Gradients of weights are added up for the whole group at the end of a segment. Buffers whose
// times do not meet share memory.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "bridle/nn.h"
#include "nn/fused_products.h"

namespace bridle {

// A buffer of a program: rows of a group by columns.
struct FusedBuffer {
  int index = -1;
  explicit operator bool() const { return index >= 0; }
};

// A number of a program: fixed, or offset + slope·w of a weight w, read anew before every run. Where w has more than one entry it
// is one number for each column.
struct FusedNumber {
  float fixed = 1.0F;
  int index = -1;
};

// What a product reads, and how the gradient of it is delivered: the epilogue of whatever product computes that gradient.
struct FusedValue {
  FusedBuffer values = {};
  FusedBuffer gradient = {};  // none: nobody asks for it
  Epilogue epilogue = Epilogue::store;
  float gain = 1.0F;          // the gradient is this times the product
  FusedBuffer slope = {};     // times, unsort: of the activation that made it
  FusedBuffer stream = {};    // residual: float32, where the gradient is added
  FusedNumber keep = {0.0F};  // residual: of what is in the stream so far
};

// Where a branch ends: stream = keep·stream + share·branch, with a copy of it.
struct FusedEnd {
  FusedBuffer stream = {};
  FusedBuffer out = {}, d_out = {};
  FusedNumber keep = {}, share = {};
  std::optional<Param> alpha = {};  // learned: share is α
  FusedBuffer before = {};          // where keep is 1 − α: a copy of the stream before the branch
  double dropout = 0.0, drop_path = 0.0;
};

// How a batch is cut. It depends on shapes alone, so that results do not depend on the number of threads.
struct FusedShape {
  int64_t batch = 0, length = 0;
  int64_t rows = 0;     // of a sequence: length, padded
  int64_t group = 0;    // sequences that are worked on together
  bool shared = false;  // all threads work on one group; otherwise each has its own
  int64_t slots = 0;    // of sums
  // Where groups begin, and the end: whole groups first, then smaller ones, so that threads end together.
  std::vector<int64_t> bounds() const;
  bool operator==(const FusedShape&) const = default;
};

// Sequences of a group, and their rows.
struct FusedPart {
  int64_t sequence, count, first, rows;
};

class FusedGroup;
class FusedProgram;
class FusedSlots;

// One operation: what it does there and back, and the gradients of its weights. All that a run changes is in the group; tables
// and packed weights change between runs only.
class FusedOperation {
 public:
  FusedOperation() = default;
  virtual ~FusedOperation() = default;
  FusedOperation(const FusedOperation&) = delete;
  FusedOperation& operator=(const FusedOperation&) = delete;

  // Which buffers it touches on the way there and on the way back.
  struct Uses {
    std::vector<FusedBuffer> forward = {}, backward = {};
  };
  virtual Uses uses() const = 0;
  virtual std::vector<FusedWeight*> weights() { return {}; }
  virtual int64_t member_scratch(const FusedShape& /*shape*/) const { return 0; }  // bytes, for each thread
  virtual int64_t scratch(const FusedShape& /*shape*/) const { return 0; }         // bytes, for the group

  virtual void set_rows(FusedProgram& /*program*/, int64_t /*rows*/) {}  // of a sequence: tables of positions
  virtual void read_tables(const FusedProgram& /*program*/) {}           // small weights as they are now

  virtual void forward(FusedGroup& group, const FusedPart& part) const = 0;
  virtual void backward(FusedGroup& group, const FusedPart& part) const = 0;
  virtual void add_gradients(FusedGroup& /*group*/) const {}  // of matrices, over all rows

  // Sums become gradients: results[i] belongs to the model's params[i] and is undefined until an operation has written it.
  virtual void gradients(const FusedSlots& /*slots*/, float /*mean*/,
                         std::span<at::Tensor> /*results*/) const {}
};

// Floats of a slot that an operation adds gradients to.
struct FusedSumsPlace {
  int index = -1;
};

class FusedProgram {
 public:
  FusedProgram(const std::vector<Param>& params, const StepKernels& kernels)
      : params_(params), kernels_(kernels) {}

  // ---- Building
  FusedBuffer matrix(int64_t columns);  // of values; columns are padded
  FusedBuffer floats(int64_t columns);  // float32
  FusedSumsPlace sums(int64_t count,
                      bool from_zero);  // from_zero: cleared at a step's beginning, else overwritten
  void resize_sums(FusedSumsPlace place, int64_t count) {
    sums_[static_cast<size_t>(place.index)].count = count;
  }
  FusedNumber number(const Param& weight, float slope = 1.0F, float offset = 0.0F);
  size_t place_of(const Param& param) const;  // among the model's params
  template <class Operation>
  void add(std::unique_ptr<Operation> operation) {
    operations_.push_back(std::move(operation));
  }
  void cut_forward() { forward_cuts_.push_back(operations_.size()); }  // a segment of the way there ends here
  void cut_backward() { backward_cuts_.push_back(operations_.size()); }
  uint64_t next_dropout_call() { return dropout_calls_++; }  // in the order of the way there
  uint64_t dropout_calls() const { return dropout_calls_; }
  void finish();  // packs memory for weights; nothing is added after it

  // ---- Running
  const std::vector<Param>& params() const { return params_; }
  const StepKernels& kernels() const { return kernels_; }
  float value(FusedNumber number) const {
    return number.index < 0 ? number.fixed : numbers_[static_cast<size_t>(number.index)].value;
  }
  // [columns], padded; null where one number is for all of them, and `value` has it. Else `value` is 1.
  const float* columns(FusedNumber number) const {
    if (number.index < 0) return nullptr;
    const std::vector<float>& own = numbers_[static_cast<size_t>(number.index)].columns;
    return own.empty() ? nullptr : own.data();
  }
  std::span<const std::unique_ptr<FusedOperation>> operations() const { return operations_; }
  FusedShape shape_of(int64_t batch, int64_t length) const;
  void set_rows(int64_t rows);
  void pack(const Team& team);  // all weights as they are now

  struct Segment {
    size_t begin, end;  // operations
  };
  const std::vector<Segment>& forward_segments() const { return forward_; }
  const std::vector<Segment>& backward_segments() const {
    return backward_;
  }  // in the order of the way there

  struct BufferInfo {
    int64_t columns;
    bool is_matrix;
    int64_t value_bytes;
    int64_t bytes(int64_t rows) const;
  };
  const std::vector<BufferInfo>& buffers() const { return buffers_; }

  // Where each buffer begins and how much memory all of them take, for so many rows. Without gradients only the way there
  // counts.
  struct Layout {
    std::vector<int64_t> offsets;
    int64_t bytes = 0;
  };
  Layout layout(int64_t rows, bool gradients) const;

  struct SumsInfo {
    int64_t count;
    bool from_zero;
  };
  const std::vector<SumsInfo>& sums_infos() const { return sums_; }
  int64_t most_left_columns() const;

 private:
  struct Follower {
    Param weight;
    float slope, offset, value = 1.0F;
    std::vector<float> columns = {};  // instead of value; padded
    void read();
  };
  std::vector<Param> params_;
  const StepKernels& kernels_;
  std::vector<Follower> numbers_;
  std::vector<std::unique_ptr<FusedOperation>> operations_;
  std::vector<size_t> forward_cuts_, backward_cuts_;
  std::vector<Segment> forward_, backward_;
  std::vector<BufferInfo> buffers_;
  std::vector<SumsInfo> sums_;
  std::vector<FusedWeight*> weights_;
  int64_t rows_ = 0;
  uint64_t dropout_calls_ = 0;
  Arena packed_;
};

}  // namespace bridle
