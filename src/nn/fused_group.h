// A group of sequences through all layers of a transformer, there and back: their activations, and the order of the kernels.
#pragma once

#include <vector>

#include "nn/fused_model.h"

namespace bridle {

// Sums of gradients, one place for each weight; several groups may add to them, one after another.
struct FusedSums {
  FusedSums(const FusedModel& model, int64_t rows);
  void start(
      const FusedModel& model);  // a new step: embeddings and biases begin at zero, matrices are overwritten

  std::vector<float*> matrices;  // in the order of FusedModel::weights()
  float* embedding = nullptr;    // [vocabulary, size]
  float* positions = nullptr;    // [rows, size], or null
  float* bias = nullptr;         // as FusedModel::bias, or null
  bool empty = true;             // no group has been added

 private:
  Arena memory_;
  int64_t rows_;
};

class FusedGroup {
 public:
  FusedGroup(const FusedModel& model, const FusedShape& shape, Team team);

  // Sequences [first, first + count) of tokens and targets, [batch, length]. Loss and hits are sums over them.
  struct Loss {
    double loss = 0.0;
    int64_t hits = 0;
  };
  Loss forward(const int64_t* tokens, const int64_t* targets, int64_t count);
  Loss forward_and_backward(const int64_t* tokens, const int64_t* targets, int64_t count, FusedSums& sums);

  double forward_seconds = 0.0, backward_seconds = 0.0;  // so far

 private:
  struct Matrix {  // of activations
    Bfloat16* data = nullptr;
    int64_t columns = 0, stride = 0;
    Bfloat16* row(int64_t i) const { return data + i * stride; }
  };
  struct Layer {
    Matrix in, qkv, heads, middle, active, slope;
    float* log_sums;  // [sequences, heads, rows]
  };
  enum class Way { forward, backward };

  template <class Visit>
  void visit_memory(const Visit& visit);
  int64_t tokens() const { return count_ * shape_.rows; }  // of the group, with padding

  void embed(const int64_t* tokens);
  void through_layers();
  void project(size_t layer, int64_t first, int64_t rows);  // to queries, keys and values
  void turn(const Matrix& qkv, int64_t first, int64_t rows, float direction);
  AttentionTask attention_task(size_t layer, int64_t sequence, int64_t head) const;
  Loss loss(const int64_t* targets, FusedSums* sums);
  void back_through_layers(FusedSums& sums);
  void back_through_branches(size_t layer);
  void back_through_attention(size_t layer, FusedSums& sums);
  void add_embedding_gradients(const int64_t* tokens, FusedSums& sums) const;

  void linear(const FusedWeight& weight, Way way, const Matrix& left, LinearTask task, int64_t first,
              int64_t rows) const;
  void add_gradient(const Matrix& left, const Matrix& right, int64_t rows, float* out, bool add) const;
  template <class Tile>
  void each_tile(const Tile& tile) const;

  const FusedModel& model_;
  FusedShape shape_;
  Team team_;
  Arena memory_;
  int64_t count_ = 0;  // sequences in it now

  std::vector<Layer> layers_;
  Matrix last_;              // what the head sees
  Matrix d_out_, d_middle_;  // gradients of a layer's output and of what its feed-forward branch got
  Matrix d_active_, d_heads_, d_qkv_;
  Matrix d_logits_;
  float* stream_ = nullptr;  // [tokens, size]: the residual stream, then its gradient
  float* logits_ = nullptr;
  uint32_t* packed_left_ = nullptr;
  std::vector<uint32_t*> packed_right_;   // a member
  std::vector<void*> attention_scratch_;  // a member
};

}  // namespace bridle
