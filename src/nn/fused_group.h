// A group of sequences through all layers of a transformer, there and back: their activations, and the order of the kernels.
#pragma once

#include <vector>

#include "nn/fused_model.h"
#include "nn/fused_ops.h"

namespace bridle {

// Sums of gradients, one place for each weight; several groups may add to them, one after another.
struct FusedSums {
  FusedSums(const FusedModel& model, int64_t rows);
  void start(
      const FusedModel& model);  // a new step: embeddings and biases begin at zero, matrices are overwritten

  std::vector<float*> matrices;   // in the order of FusedModel::weights()
  float* embedding = nullptr;     // [vocabulary, size]
  float* positions = nullptr;     // [rows, size], or null
  float* bias = nullptr;          // as FusedModel::bias, or null
  std::vector<float> logit_bias;  // as FusedModel::logit_bias
  bool empty = true;              // no group has been added

 private:
  Arena memory_;
  int64_t rows_;
};

class FusedGroup {
 public:
  FusedGroup(const FusedModel& model, const FusedShape& shape, Team team);

  // `count` sequences of tokens and targets, [count, length]. Loss and hits are sums over them.
  struct Loss {
    double loss = 0.0;
    int64_t hits = 0;
  };
  Loss forward(const int64_t* tokens, const int64_t* targets, int64_t count);
  Loss forward_and_backward(const int64_t* tokens, const int64_t* targets, int64_t count, FusedSums& sums);

  double forward_seconds = 0.0, backward_seconds = 0.0;  // so far

 private:
  struct Layer {
    FusedMatrix in, qkv, heads, middle, active, slope;
    float* log_sums;  // [sequences, heads, rows]
  };

  template <class Visit>
  void visit_memory(const Visit& visit);
  int64_t tokens() const { return count_ * shape_.rows; }  // of the group, with padding

  void embed(const int64_t* tokens);
  struct Part {  // sequences of the group, and their rows
    int64_t sequence, count, first, rows;
  };
  template <class Use>
  void each_part(const Use& use) const;

  void through_layers();
  void project(size_t layer, const Part& part);  // to queries, keys and values
  void turn(const FusedMatrix& qkv, int64_t first, int64_t rows, float direction);
  void turn_part(const FusedMatrix& qkv, const Part& part, float direction);
  AttentionTask attention_task(size_t layer, int64_t sequence, int64_t head) const;
  void attend(size_t layer, const Part& part);
  LinearTask residual(const FusedMatrix& out, double alpha, double scale) const;
  Loss loss(const int64_t* targets, FusedSums* sums);
  void back_through_layers(FusedSums& sums);
  void back_through_layer(size_t layer, const Part& part, FusedSums& sums);
  void attend_backward(size_t layer, const Part& part, FusedSums& sums);
  void add_embedding_gradients(const int64_t* tokens, FusedSums& sums) const;

  const FusedModel& model_;
  FusedShape shape_;
  FusedOps ops_;
  Arena memory_;
  int64_t count_ = 0;  // sequences in it now

  std::vector<Layer> layers_;
  FusedMatrix last_;          // what the head sees
  FusedMatrix d_out_, d_in_;  // gradients of a layer's output and input
  FusedMatrix d_middle_;      // and of what its feed-forward branch gets
  FusedMatrix d_active_, d_heads_, d_qkv_;
  FusedMatrix d_logits_;
  float* stream_ = nullptr;  // [tokens, size]: the residual stream, then its gradient
  float* logits_ = nullptr;
  std::vector<void*> attention_scratch_;  // a member
};

}  // namespace bridle
