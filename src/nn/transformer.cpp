#include "nn/transformer.h"

#include <ATen/ops/linear.h>
#include <fmt/format.h>

#include "nn/dropout.h"

namespace bridle {

Transformer::Transformer(const TransformerOptions& options, const WeightOrigin& origin) : options_(options) {
  Weights weights(options.initialization, 2 * options.num_hidden_layers, origin, params_);
  weights.attention_residuals_after = weights.mlp_residuals_after = options.num_hidden_layers;
  embedding_ = std::make_unique<Embedding>(options, weights);
  for (int64_t i = 0; i < options.num_hidden_layers; ++i) {
    const std::string name = fmt::format("model.layers.{}", i);
    --weights.attention_residuals_after;
    Norm attention_norm(options, weights, name + ".input_layernorm");
    Attention attention(options, weights, name + ".self_attn", i);
    --weights.mlp_residuals_after;
    Norm mlp_norm(options, weights, name + ".post_attention_layernorm");
    FeedForward mlp(options, weights, name + ".mlp");
    blocks_.push_back({name, attention_norm, attention, Residual(options.residual, options.attention_alpha),
                       mlp_norm, mlp, Residual(options.residual, options.mlp_alpha)});
  }
  norm_ = std::make_unique<Norm>(options, weights, "model.norm");
  if (!options.tie_embeddings)
    head_.emplace(weights, "lm_head",
                  LinearOptions{.role = Role::head, .out = options.vocab_size, .in = options.hidden_size});
  final_scale_.emplace(weights, "final_scale", options.final_scale, options.learnable_scales);
  if (options.logit_bias)
    logit_bias_ = weights.vector("logit_bias", Role::logit_bias, {options.real_vocab_size}, 0.0);
}

Param Transformer::head() const {
  Param rows = head_ ? head_->weight() : embedding_->table();
  rows.name =
      "lm_head.weight";  // also where they are the embedding: a question about these rows is not one about the table
  if (options_.real_vocab_size < options_.vocab_size)
    rows.tensor = rows.tensor.narrow(0, 0, options_.real_vocab_size);
  return rows;
}

at::Tensor Transformer::forward_from(const at::Tensor& embedded, Pass& pass) const {
  const auto seen = [&pass](const std::string& name, const at::Tensor& x) {
    if (pass.statistics != nullptr) pass.statistics->record(name, x);
    return x;
  };
  KeyValueCache* cache = pass.cache;
  const int64_t first = cache == nullptr ? 0 : cache->length;
  if (cache != nullptr) cache->layers.resize(blocks_.size());
  at::Tensor x =
      seen("model.embed_tokens", dropout(embedding_->add_positions(embedded, first), options_.dropout, pass));
  for (size_t i = 0; i < blocks_.size(); ++i) {
    const Block& block = blocks_[i];
    const at::Tensor attended = block.attention.forward(block.attention_norm.forward(x), pass,
                                                        cache == nullptr ? nullptr : &cache->layers[i]);
    x = seen(block.name + ".self_attn",
             block.attention_residual.forward(x, dropout(attended, options_.dropout, pass)));
    const at::Tensor fed = block.mlp.forward(block.mlp_norm.forward(x));
    x = seen(block.name + ".mlp", block.mlp_residual.forward(x, dropout(fed, options_.dropout, pass)));
  }
  if (cache != nullptr) cache->length += x.size(1);
  x = norm_->forward(x);
  const at::Tensor logits = final_scale_->forward(at::linear(x, head().tensor.to(x.scalar_type())));
  return seen("lm_head", logit_bias_ ? logits.add(logit_bias_->tensor.to(x.scalar_type())) : logits);
}

ModelShape Transformer::shape() const {
  return {.input = options_.kInput,
          .size = options_.hidden_size,
          .longest = options_.max_position_embeddings,
          .outputs = options_.real_vocab_size};
}

std::vector<Param> Transformer::certified_weights() const {
  std::vector<Param> all = params_;
  if (!head_) all.push_back(head());
  return all;
}

Bound Transformer::bound(const UpperBound& domain, Walk& walk) const {
  const auto record = [&](const std::string& name, const Bound& after) {
    return walk.record(name, after, options_.hidden_size);
  };
  Bound x = record("model.embed_tokens", embedding_->bound(domain, walk));
  for (const Block& block : blocks_) {
    const Bound attended = block.attention.bound(block.attention_norm.bound(x, walk), walk);
    x = record(block.name + ".self_attn", block.attention_residual.bound(x, attended));
    x = record(block.name + ".mlp",
               block.mlp_residual.bound(x, block.mlp.bound(block.mlp_norm.bound(x, walk), walk)));
  }
  x = norm_->bound(x, walk);
  const Param rows = head();
  walk.trunk = x.lipschitz;
  walk.largest_logit = one_logit(x.lipschitz, walk.norms.largest_row_rms(rows), options_.hidden_size) *
                       final_scale_->magnitude(walk);
  x = x.affine(walk.norms.matrix(rows) * root_of_ratio(options_.hidden_size, rows.tensor.size(0)));
  x = final_scale_->bound(x, walk);
  if (logit_bias_)
    x = x.affine(1.0, walk.norms.euclidean(*logit_bias_) * root_of_ratio(1, rows.tensor.size(0)));
  return walk.record("lm_head", x, rows.tensor.size(0));
}

LogitEnclosure Transformer::enclose(const at::Tensor& embedded, ErrorWalk& walk) const {
  Enclosure x = walk.record("model.embed_tokens", embedding_->enclose(embedded, walk));
  for (const Block& block : blocks_) {
    const Enclosure attended = block.attention.enclose(block.attention_norm.enclose(x, walk), walk);
    x = walk.record(block.name + ".self_attn", block.attention_residual.enclose(x, attended, walk));
    const Enclosure fed = block.mlp.enclose(block.mlp_norm.enclose(x, walk), walk);
    x = walk.record(block.name + ".mlp", block.mlp_residual.enclose(x, fed, walk));
  }
  const Param rows = head();
  return enclose_logits(
      norm_->enclose(x, walk),
      {.rows = rows, .scale = final_scale_->value(), .bias = logit_bias_ ? &*logit_bias_ : nullptr}, walk);
}

}  // namespace bridle
