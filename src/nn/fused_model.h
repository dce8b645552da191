// What a fused pass knows of a transformer: sizes, scalars, packed weights, tables of positions.
#pragma once

#include <optional>
#include <vector>

#include "bridle/nn.h"
#include "nn/fused_weights.h"
#include "nn/residual.h"

namespace bridle {

struct FusedLayer {
  FusedWeight qkv, output, up, down;
  std::vector<size_t> qkv_params;  // their places among the model's params
  size_t output_param, up_param, down_param;
  std::optional<size_t> bias_param;
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

struct FusedModel {
  // Throws std::logic_error for options that `why_not` names.
  FusedModel(const TransformerOptions& model_options, const std::vector<Param>& model_params,
             const StepKernels& step_kernels);

  // Why such passes of such a model are not fused, in words for the user; empty where they are.
  static std::string why_not(const TransformerOptions& options, const Pass& pass);

  FusedShape shape_of(int64_t batch, int64_t length) const;
  void set_length(int64_t rows);  // tables for so many positions
  void pack(const Team& team);    // weights and biases as they are now
  std::vector<const FusedWeight*> weights() const;

  // The residual: keep·x + share·branch.
  float keep(double alpha) const {
    return is_convex(options.residual) ? static_cast<float>(1.0 - alpha) : 1.0F;
  }
  float share(double alpha) const { return is_convex(options.residual) ? static_cast<float>(alpha) : 1.0F; }

  TransformerOptions options;
  std::vector<Param> params;
  const StepKernels& kernels;
  int64_t size, inner, classes;  // padded: of a token, of the feed-forward layer, of the logits
  int64_t head_size;
  float attention_scale;
  std::vector<FusedLayer> layers;
  std::optional<FusedWeight> head;
  size_t embedding_param = 0, head_param = 0;
  std::optional<size_t> positions_param, logit_bias_param;

  int64_t rows = 0;                 // that the tables are for
  std::vector<float> cosine, sine;  // [rows, head_size/2]; empty without rope
  std::vector<float> bias;          // [layers, heads, 2·rows], see AttentionTask; empty without
  std::vector<float> logit_bias;    // [classes], or empty

  const float* bias_of(size_t layer, int64_t which) const {
    return bias.empty() ? nullptr : bias.data() + bias_at(layer, which);
  }
  int64_t bias_at(size_t layer, int64_t which) const {
    return (static_cast<int64_t>(layer) * options.num_attention_heads + which) * 2 * rows;
  }

 private:
  Arena packed_;
};

}  // namespace bridle
