// The kernels of a fused training step, on raw memory, one table for each instruction set. Matrices of activations are
// bfloat16, row by row; every size is padded to a multiple of 32 (kBlock), with zeros, so that no kernel has a ragged end. Weights
// are packed once a step. Kernels run on the calling thread; who runs which is the caller's choice.
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
// Words of a packed factor of so many lines and terms, both padded: [lines/32][depth/32][2 tiles][16][16].
[[gnu::always_inline]] constexpr int64_t packed_size(int64_t lines, int64_t depth) {
  return lines * depth / 2;
}

// What becomes of factor·(left·right) + bias, block by block, while it is in the cache:
enum class Epilogue {
  store,     // out = it
  logits,    // sums = it
  residual,  // stream = keep·stream + it;  out = stream
  activate,  // out = share·f(it);  slope = share·f′(it), for maxmin, whose share is 1, 1 where a pair stays as it is, else 0
  times,     // out = it·slope
  unsort,    // out = it, pairs that changed places put back
};

struct LinearTask {
  const Bfloat16* left = nullptr;  // [rows, depth]
  int64_t left_stride = 0;
  int64_t rows = 0;
  const uint32_t* right = nullptr;  // packed, [column blocks][steps]
  int64_t steps = 0;                // depth/32
  int64_t first_block = 0;          // of columns
  int64_t end_block = 0;
  Epilogue epilogue = Epilogue::store;
  float factor = 1.0F;
  const float* bias = nullptr;  // [columns], or null
  Bfloat16* out = nullptr;      // [rows, columns]
  Bfloat16* slope = nullptr;
  int64_t out_stride = 0;   // of out and slope
  float* stream = nullptr;  // float32: the stream, or the logits
  int64_t stream_stride = 0;
  float keep = 0.0F;
  ActivationKind activation = ActivationKind::gelu_tanh;
  float share = 1.0F;
  // residual: entries of factor·(left·right) + bias that dropout drops add nothing, the others `drop_scale` times as much.
  uint32_t drop_threshold = 0;  // 0: none
  uint64_t drop_key = 0;
  int64_t drop_row = 0;  // of the hash, for the task's first row
  float drop_scale = 1.0F;
};

// Rows of float32 to rows of bfloat16 of the same kind of size: y = x̂∘g + b, x̂ = (x − mean)/√(variance + ε) (layer_norm),
// x/√(mean of squares + ε) (rms_norm), tanh x (tanh; no gain). Backward, with the gradient of y, adds the gradient of x to a stream.
struct NormTask {
  NormLayer kind = NormLayer::rms_norm;
  int64_t rows = 0;
  int64_t size = 0;     // entries that count
  int64_t columns = 0;  // padded; those past `size` become zero
  float epsilon = 0.0F;
  const float* gain = nullptr;  // [columns], or null
  const float* bias = nullptr;  // [columns], or null
  float* stream = nullptr;      // [rows, columns]: x; backward: stream = keep·stream + gradient of x
  Bfloat16* normal = nullptr;   // x̂, [rows, stride]
  Bfloat16* out = nullptr;  // y; backward: the gradient of y; may be x̂ where there is neither gain nor bias
  int64_t stride = 0;       // of normal, out and copy
  float* inverse = nullptr;  // [rows]: 1/√…
  float keep = 0.0F;
  Bfloat16* copy = nullptr;  // backward: of the stream
};

// out[i] += factor·Σ_rows left[row, i]·right[row, i], right null: of left alone; columns [first, end).
struct ColumnsTask {
  const Bfloat16* left = nullptr;
  const Bfloat16* right = nullptr;
  int64_t stride = 0, right_stride = 0;
  int64_t rows = 0;
  int64_t first = 0, end = 0;  // multiples of 32
  float* out = nullptr;
};

// out = in, entries that dropout drops zero and the others times `scale`; row r of the task is row `first_row` + r of the hash.
struct DropTask {
  const Bfloat16* in = nullptr;
  Bfloat16* out = nullptr;
  int64_t stride = 0;
  int64_t rows = 0, columns = 0;
  uint64_t key = 0;
  int64_t first_row = 0;
  uint32_t threshold = 0;
  float scale = 1.0F;
};

// Turns pairs of every head by the angle of its position; `direction` −1 turns back. Tables are [rows, head_size/2].
struct RopeTask {
  Bfloat16* data = nullptr;  // [rows, heads·head_size]
  int64_t stride = 0;
  int64_t rows = 0;
  int64_t heads = 0;
  int64_t head_size = 0;
  const float* cosine = nullptr;
  const float* sine = nullptr;
  float direction = 1.0F;
};

// Causal attention of one head over one sequence. q, k, v and their gradients share a stride; tables are of `rows` rows.
struct AttentionTask {
  int64_t rows = 0;  // padded tokens
  int64_t head_size = 0;
  float scale = 1.0F;
  const Bfloat16 *q = nullptr, *k = nullptr, *v = nullptr;
  int64_t stride = 0;
  Bfloat16* out = nullptr;  // forward: written; backward: read
  int64_t out_stride = 0;
  float* log_sums = nullptr;  // [rows]: of the exponentials of each row's logits
  const float* bias =
      nullptr;  // null, or [2·rows]: what is added to logits, at rows − 1 − i + j for token i reading j
  // backward
  const Bfloat16* d_out = nullptr;  // with out_stride
  Bfloat16 *dq = nullptr, *dk = nullptr, *dv = nullptr;
  float* d_bias = nullptr;      // as bias; added to
  uint32_t drop_threshold = 0;  // weights that dropout drops are zero, the others times drop_scale; 0: none
  uint64_t drop_key = 0;
  int64_t drop_row = 0;  // of the hash, for the first token's weights
  float drop_scale = 1.0F;
  bool add_keys =
      false;  // dk and dv go on from the last call with this scratch: a head of keys that serves several queries
  void* scratch = nullptr;  // attention_scratch bytes, 64-byte aligned
};
int64_t attention_scratch(int64_t rows, int64_t head_size);
constexpr int64_t kStripRows = 128;  // backward: rows whose weights are turned around together

// out[right block][left block] (+)= leftᵀ·right over `depth` rows, blocks of 32×32 float32, row by row.
struct GradientTask {
  const uint32_t* left = nullptr;  // packed, [left blocks][depth/32]
  int64_t left_blocks = 0;
  const Bfloat16* right = nullptr;  // [depth, right_columns]
  int64_t right_stride = 0;
  int64_t right_columns = 0;  // at most kGradientColumns
  int64_t depth = 0;
  bool add = true;
  float* out = nullptr;
  uint32_t* scratch = nullptr;  // packed_size(kGradientColumns, depth)
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
  float margin = 0.0F;           // taken off the target's logit, once it is known whether that is a hit
  const float* bias = nullptr;   // [columns], added to every row; or null
  float* d_bias = nullptr;       // [columns], added to where there is a bias and a gradient
  Bfloat16* gradient = nullptr;  // [rows, gradient_stride]; null: not wanted
  int64_t gradient_stride = 0;
  double loss = 0.0;
  int64_t hits = 0;
};

struct StepKernels {
  void (*pack)(const amx::Factor& factor, amx::Side side, int64_t line, int64_t start, int64_t steps,
               uint32_t* packed);
  // rows [rows, columns] of float32, one after another, to bfloat16 rows `stride` apart
  void (*narrow)(const float* from, int64_t columns, int64_t rows, Bfloat16* to, int64_t stride);
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
};

const StepKernels& step_kernels(InstructionSet set = instruction_set());

const StepKernels& step_kernels_plain();
const StepKernels& step_kernels_avx2();
const StepKernels& step_kernels_avx512();
const StepKernels& step_kernels_avx512_bf16();
const StepKernels& step_kernels_amx();

}  // namespace bridle
