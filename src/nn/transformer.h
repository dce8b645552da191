// The Lipschitz transformer: embedding, blocks of attention and feed-forward layers in convex residuals, head. Its options
// also make nanoGPT's GPT of it (recipes/shakespeare_nanogpt.toml).
#pragma once

#include <memory>
#include <optional>
#include <variant>
#include <vector>

#include "nn/attention.h"
#include "nn/embedding.h"
#include "nn/feed_forward.h"
#include "nn/fused_pass.h"
#include "nn/mixing.h"
#include "nn/norm.h"
#include "nn/quadrature_feed_forward.h"
#include "nn/residual.h"

namespace bridle {

class Transformer : public Model {
 public:
  Transformer(const TransformerOptions& options, const WeightOrigin& origin);
  at::Tensor embed(const at::Tensor& tokens, Pass& pass) const override;
  at::Tensor forward_from(const at::Tensor& embedded, Pass& pass) const override;
  std::string why_not_fused(const Pass& pass) const override;
  std::optional<LossAndGradients> fused_loss(const at::Tensor& tokens, const at::Tensor& targets, Pass& pass,
                                             bool gradients) const override;
  std::unique_ptr<FusedProgram> fused_program(const StepKernels& kernels) const;
  Bound bound(const UpperBound& domain, Walk& walk) const override;
  LogitEnclosure enclose(const at::Tensor& embedded, ErrorWalk& walk) const override;
  at::Tensor logit_rows() const override { return head().tensor.detach(); }
  double logit_scale() const override { return final_scale_->value(); }
  std::optional<ModelOptions> options() const override { return options_; }
  ModelShape shape() const override;
  ModelFlop flop(int64_t length) const override;
  PassMemory memory(const BatchShape& batch, const Pass& pass, int threads) const override;
  std::vector<Param> certified_weights() const override;
  UpperBound input_bound(NormSource& norms) const override {
    return norms.largest_row_rms(embedding_->table());
  }

 private:
  struct AttentionBranch {
    Norm norm;
    Attention attention;
    Residual residual;
  };
  struct FeedForwardBranch {
    Norm norm;
    FeedForward mlp;
    Residual residual;
  };
  struct Block {
    std::string name;
    std::variant<AttentionBranch, Mixing> reader;  // of other tokens
    std::variant<FeedForwardBranch, QuadratureFeedForward> feed_forward;
  };

  std::variant<AttentionBranch, Mixing> make_reader(Weights& weights, const std::string& name,
                                                    int64_t block) const;
  std::variant<FeedForwardBranch, QuadratureFeedForward> make_feed_forward(Weights& weights,
                                                                           const std::string& name) const;
  std::string reader_name(const Block& block) const;
  Param head() const;  // its rows that are tokens

  TransformerOptions options_;
  std::unique_ptr<Embedding> embedding_;
  std::vector<Block> blocks_;
  std::unique_ptr<Norm> norm_;  // before the head; none where norms stand after residuals
  std::optional<Linear> head_;  // none: the embedding
  std::optional<Scale> final_scale_;
  std::optional<Param> logit_bias_;
  mutable FusedPasses fused_;
};

}  // namespace bridle
