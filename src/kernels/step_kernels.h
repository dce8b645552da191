// The kernels of a fused training step, on raw memory, one table for each instruction set and each type of values. Matrices of
// activations are rows of values, bfloat16 or float32 as the table says, behind `void*`; every size is padded to a multiple of
// 32 (kBlock), with zeros, so that no kernel has a ragged end. Weights are packed once per step. Kernels run on the calling
// thread; who runs which is the caller's choice.
#pragma once

#include <cstdint>

#include "bridle/architecture.h"
#include "kernels/cpu.h"
#include "kernels/matmul_amx.h"

namespace bridle {

using Bfloat16 = uint16_t;

[[gnu::always_inline]] constexpr int64_t padded(int64_t size) {
  return (size + amx::kBlock - 1) / amx::kBlock * amx::kBlock;
}

// What activations and the operands of products are; sums are float32 in both.
enum class ValueType { bfloat16, float32 };

// What becomes of factor·(left·right) + bias, block by block, while it is in the cache:
enum class Epilogue {
  store,     // out = it
  logits,    // sums = it
  residual,  // stream = keep·stream + it;  out = stream
  columns,   // the same with a keep, and a share of it, for each column
  activate,  // out = share·f(it);  slope = share·f′(it), for maxmin, whose share is 1, 1 where a pair stays as it is, else 0
  times,     // out = it·slope
  unsort,    // out = it, pairs that changed places put back
};

// Dropout of one use in a pass: entries (or, for whole branches, sequences) whose hash is below the threshold are dropped, the
// others multiplied by `scale`. Nothing is dropped where the threshold is 0.
struct FusedDrop {
  uint64_t key = 0;
  uint32_t threshold = 0;
  float scale = 1.0F;
};

struct LinearTask {
  const void* left = nullptr;  // [rows, depth]
  int64_t left_stride = 0;
  int64_t rows = 0;
  const uint32_t* right = nullptr;  // packed, [column blocks][steps]
  int64_t steps = 0;                // depth/32
  int64_t first_block = 0;          // of columns
  int64_t end_block = 0;
  Epilogue epilogue = Epilogue::store;
  float factor = 1.0F;
  const float* bias = nullptr;  // [columns], or null
  void* out = nullptr;          // [rows, columns]
  void* slope = nullptr;
  int64_t out_stride = 0;   // of out and slope
  float* stream = nullptr;  // float32: the stream, or the logits
  int64_t stream_stride = 0;
  float keep = 0.0F;
  const float *keeps = nullptr, *shares = nullptr;  // columns: [columns]; null: 1
  ActivationKind activation = ActivationKind::gelu_tanh;
  float share = 1.0F;
  // residual: what is dropped of factor·(left·right) + bias
  FusedDrop drop = {}, drop_path = {};
  int64_t drop_row = 0;       // of the hash, for the task's first row
  int64_t sequence_rows = 1;  // of a sequence, for drop_path
};

// Rows of float32 to rows of values of the same size: y = x̂∘g + b, x̂ = (x − mean)/√(variance + ε) (layer_norm),
// x/√(mean of squares + ε) (rms_norm), (x − mean)·d/(d − 1)
// (center_norm), tanh x (tanh; no gain). Backward, with the gradient of y, adds the gradient of x to a stream.
struct NormTask {
  NormLayer kind = NormLayer::rms_norm;
  int64_t rows = 0;
  int64_t size = 0;     // entries that count
  int64_t columns = 0;  // padded; those past `size` become zero
  float epsilon = 0.0F;
  const float* gain = nullptr;  // [columns], or null
  const float* bias = nullptr;  // [columns], or null
  float* stream = nullptr;      // [rows, columns]: x; backward: stream = keep·stream + gradient of x
  void* normal = nullptr;       // x̂, [rows, stride]
  void* out = nullptr;  // y; backward: the gradient of y; may be x̂ where there is neither gain nor bias
  int64_t stride = 0;   // of normal, out and copy
  float* inverse = nullptr;  // [rows]: 1/√…
  float keep = 0.0F;
  const float* keeps = nullptr;  // [columns], instead of keep; or null
  void* copy = nullptr;          // backward: of the stream
};

// out[i] += factor·Σ_rows left[row, i]·right[row, i], right null: of left alone; columns [first, end).
struct ColumnsTask {
  const void* left = nullptr;
  const void* right = nullptr;
  int64_t stride = 0, right_stride = 0;
  int64_t rows = 0;
  int64_t first = 0, end = 0;  // multiples of 32
  float* out = nullptr;
};

// out = in less what is dropped, times a share for each column where there are some; row r of the task is row `first_row` + r of the hash.
struct DropTask {
  const void* in = nullptr;
  void* out = nullptr;
  int64_t stride = 0;
  int64_t rows = 0, columns = 0;
  int64_t first_row = 0;
  int64_t sequence_rows = 1;
  FusedDrop drop = {}, drop_path = {};
  const float* shares = nullptr;  // [columns], or null
};

// Turns pairs of every head by the angle of its position; `direction` −1 turns back. Tables are [rows, head_size/2].
struct RopeTask {
  void* data = nullptr;  // [rows, heads·head_size]
  int64_t stride = 0;
  int64_t rows = 0;
  int64_t heads = 0;
  int64_t head_size = 0;
  const float* cosine = nullptr;
  const float* sine = nullptr;
  float direction = 1.0F;
};

// x/√(mean of x² + ε) of every head, in place, and its way back: there `data` is what was made, and `gradient` changes in place.
struct HeadNormTask {
  void* data = nullptr;      // [rows, heads·head_size]
  void* gradient = nullptr;  // the same; backward
  int64_t stride = 0;
  int64_t rows = 0;
  int64_t heads = 0;
  int64_t head_size = 0;
  float epsilon = 0.0F;
  float* inverse = nullptr;  // 1/√…, of row r and head h at r·inverse_stride + h
  int64_t inverse_stride = 0;
};

// What a token sees of the tokens before it: from begin(i) to i. Begins never decrease.
struct VisibleTokens {
  const int32_t* begins = nullptr;  // [rows]: of its document; or null
  int64_t window = 0;               // tokens up to the end of the token's block; 0: no limit
  int64_t block = 1;
  [[gnu::always_inline]] int64_t begin(int64_t token) const {
    const int64_t document = begins == nullptr ? 0 : begins[token];
    const int64_t near = window == 0 ? 0 : (token / block + 1) * block - window;
    return document > near ? document : near;
  }
};

// Causal attention of one head over one sequence. q, k, v and their gradients share a stride; tables are of `rows` rows. Values may
// be of another size than queries and keys, and stand elsewhere: whole tokens, for content heads (nn/content_heads.h).
struct AttentionTask {
  VisibleTokens sees = {};
  int64_t rows = 0;  // padded tokens
  int64_t head_size = 0;
  float scale = 1.0F;
  const void *q = nullptr, *k = nullptr, *v = nullptr;
  int64_t stride = 0;
  int64_t value_size = 0;    // 0: head_size
  int64_t value_stride = 0;  // of v; 0: stride
  float gain = 1.0F;         // multiplies what the head gives
  void* out = nullptr;       // forward: written; backward: read, unless there is a d_gain
  int64_t out_stride = 0;
  float* log_sums = nullptr;  // [rows]: of the exponentials of each row's logits
  const float* bias =
      nullptr;  // null, or [2·rows]: what is added to logits, at rows − 1 − i + j for token i reading j
  // backward
  const void* d_out = nullptr;                       // with out_stride
  void *dq = nullptr, *dk = nullptr, *dv = nullptr;  // dv null: it is not made
  float *key_sums = nullptr,
        *value_sums = nullptr;                  // [rows, padded size]: added to; dk and dv are made of them
  float* d_bias = nullptr;                      // as bias; added to
  float *d_gain = nullptr, *d_scale = nullptr;  // both or none; added to
  FusedDrop drop = {};                          // of weights
  int64_t drop_row = 0;                         // of the hash, for the first token's weights
  void* scratch = nullptr;                      // attention_scratch bytes, 64-byte aligned

  [[gnu::always_inline]] int64_t size_of_value() const { return value_size == 0 ? head_size : value_size; }
  [[gnu::always_inline]] int64_t stride_of_values() const {
    return value_stride == 0 ? stride : value_stride;
  }
};
int64_t attention_scratch(int64_t rows, int64_t head_size, int64_t value_bytes, int64_t value_size = 0);
constexpr int64_t kStripRows = 128;  // backward: rows whose weights are turned around together

// Of one sequence: out = (c₀x, c₁·P₁x, …), where head h of token i weights token j by exp(b_h(i − j)), over what it sees.
struct MixTask {
  VisibleTokens sees = {};
  int64_t rows = 0;  // padded tokens
  int64_t size = 0;  // entries of a token, a multiple of 32
  int64_t heads = 0;
  const void* x = nullptr;  // [rows, size]
  int64_t stride = 0;
  void* out = nullptr;  // [rows, (1 + heads)·size]
  int64_t out_stride = 0;
  const float* exponentials = nullptr;  // [heads, 2·rows]: at rows − 1 − i + j for token i reading j
  const float* shares = nullptr;        // [heads, rows]: 1/(sum of the first so many offsets, 1 and more)
  const float* coefficients = nullptr;  // [1 + heads]
  // backward
  const void* d_out = nullptr;      // with out_stride
  float* d_x = nullptr;             // [rows, size], written
  float* d_bias = nullptr;          // as exponentials, of the exponents; added to
  float* d_coefficients = nullptr;  // added to
  void* scratch = nullptr;          // mix_scratch bytes, 64-byte aligned
};
int64_t mix_scratch(int64_t rows, int64_t size, int64_t value_bytes);

// Of one sequence: out = c·m, m_i = max over tokens j of i's document up to i of v_j − (i − j)·decay.
struct DecayTask {
  int64_t rows = 0;
  int64_t channels = 0;     // a multiple of 16
  const void* v = nullptr;  // [rows, channels]
  void* stays = nullptr;    // the same: where a token's own value is the maximum
  int64_t stride = 0;       // of v, stays and d_v
  void* out = nullptr;
  int64_t out_stride = 0;         // of out and d_out
  const float* decays = nullptr;  // [channels]
  float coefficient = 1.0F;
  const int32_t* begins = nullptr;  // [rows]; or null
  // backward
  const void* d_out = nullptr;
  void* d_v = nullptr;
  float* d_decays = nullptr;       // added to
  float* d_coefficient = nullptr;  // added to
};

// out[right block][left block] (+)= leftᵀ·right over `depth` rows, blocks of 32×32 float32, row by row.
struct GradientTask {
  const uint32_t* left = nullptr;  // packed, [left blocks][depth/32]
  int64_t left_blocks = 0;
  const void* right = nullptr;  // [depth, right_columns]
  int64_t right_stride = 0;
  int64_t right_columns = 0;  // at most kGradientColumns
  int64_t depth = 0;
  bool add = true;
  float* out = nullptr;
  uint32_t* scratch = nullptr;  // packed_words(kGradientColumns, depth)
};
constexpr int64_t kGradientColumns = 256;

// Mean-free cross-entropy: adds up −log p(target) and hits, and writes softmax − onehot, zero outside.
struct LossTask {
  float* logits = nullptr;  // [rows, stride]; bias and margin change them in place
  int64_t stride = 0;
  int64_t rows = 0;     // padded
  int64_t tokens = 0;   // rows that count
  int64_t classes = 0;  // columns that count
  int64_t columns = 0;  // padded
  const int64_t* targets = nullptr;
  float margin = 0.0F;          // taken off the target's logit, once it is known whether that is a hit
  const float* bias = nullptr;  // [columns], added to every row; or null
  float soft_cap = 0.0F;        // c: logits become c·tanh(z/c), before the margin; 0: they stay
  float* d_bias = nullptr;      // [columns], added to where there is a bias and a gradient
  void* gradient = nullptr;     // [rows, gradient_stride]; null: not wanted
  int64_t gradient_stride = 0;
  double loss = 0.0;
  int64_t hits = 0;
};

struct StepKernels {
  amx::Element element;  // of values

  int64_t value_bytes() const { return element == amx::Element::float32 ? 4 : 2; }
  // Words of a packed factor: of 32 lines and 32 terms, and of so many lines and terms, both padded.
  int64_t step_words() const { return amx::kBlock * amx::kStep * value_bytes() / 4; }
  int64_t packed_words(int64_t lines, int64_t depth) const { return lines * depth * value_bytes() / 4; }

  void (*pack)(const amx::Factor& factor, amx::Side side, int64_t line, int64_t start, int64_t steps,
               uint32_t* packed);
  // rows [rows, columns] of float32, one after another, to rows of values `stride` apart
  void (*narrow)(const float* from, int64_t columns, int64_t rows, void* to, int64_t stride);
  void (*linear)(const LinearTask& task);
  void (*rope)(const RopeTask& task);
  void (*attend)(const AttentionTask& task);
  void (*attend_backward)(const AttentionTask& task);
  void (*add_gradient)(const GradientTask& task);
  void (*cross_entropy)(LossTask& task);
  void (*norm)(const NormTask& task);
  void (*norm_backward)(const NormTask& task);
  void (*add_columns)(const ColumnsTask& task);
  void (*drop)(const DropTask& task);
  void (*head_norm)(const HeadNormTask& task);
  void (*head_norm_backward)(const HeadNormTask& task);
  void (*mix)(const MixTask& task);
  void (*mix_backward)(const MixTask& task);
  void (*decaying_max)(const DecayTask& task);
  void (*decaying_max_backward)(const DecayTask& task);
};

const StepKernels& step_kernels(ValueType values, InstructionSet set = instruction_set());
inline const StepKernels& step_kernels(InstructionSet set = instruction_set()) {
  return step_kernels(ValueType::bfloat16, set);
}

const StepKernels& step_kernels_plain();
const StepKernels& step_kernels_avx2();
const StepKernels& step_kernels_avx512();
const StepKernels& step_kernels_avx512_bf16();
const StepKernels& step_kernels_amx();
const StepKernels& step_kernels_float32_plain();
const StepKernels& step_kernels_float32_avx2();
const StepKernels& step_kernels_float32_avx512();

}  // namespace bridle
