#include "nn/transformer.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/maximum.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/overloaded.h"
#include "bridle/error.h"
#include "nn/dropout.h"

namespace bridle {

Transformer::Transformer(const TransformerOptions& options, const WeightOrigin& origin)
    : options_(options), fused_([this](const StepKernels& kernels) { return fused_program(kernels); }) {
  Weights weights(options.initialization, 2 * options.num_hidden_layers, origin, params_);
  // The α of a branch without effect would go to 0 and stay.
  weights.branches_begin_at_zero = options.learned_alpha == LearnedAlpha::none;
  weights.attention_residuals_after = weights.mlp_residuals_after = options.num_hidden_layers;
  embedding_ = std::make_unique<Embedding>(options, weights);
  for (int64_t i = 0; i < options.num_hidden_layers; ++i) {
    const std::string name = fmt::format("model.layers.{}", i);
    --weights.attention_residuals_after;
    auto reader = make_reader(weights, name, i);
    --weights.mlp_residuals_after;
    auto feed_forward = make_feed_forward(weights, name);
    blocks_.push_back({name, std::move(reader), std::move(feed_forward)});
  }
  if (!options.norm_after) norm_ = std::make_unique<Norm>(options, weights, "model.norm");
  if (!options.tie_embeddings)
    head_.emplace(weights, "lm_head",
                  LinearOptions{.role = Role::head, .out = options.vocab_size, .in = options.hidden_size});
  final_scale_.emplace(weights, "final_scale", options.final_scale, options.learnable_scales);
  if (options.logit_bias)
    logit_bias_ = weights.vector("logit_bias", Role::logit_bias, {options.real_vocab_size}, 0.0);
}

std::variant<Transformer::AttentionBranch, Mixing> Transformer::make_reader(Weights& weights,
                                                                            const std::string& name,
                                                                            int64_t block) const {
  switch (options_.mixing) {
    case MixingKind::attention:
      break;
    case MixingKind::quadrature:
      return Mixing(options_, weights, name + ".mixing", block);
  }
  Norm norm(options_, weights, name + ".input_layernorm");
  Attention attention(options_, weights, name + ".self_attn", block);
  Residual residual(options_, weights, name + ".attention_alpha", options_.attention_alpha);
  return AttentionBranch{norm, attention, residual};
}

std::variant<Transformer::FeedForwardBranch, QuadratureFeedForward> Transformer::make_feed_forward(
    Weights& weights, const std::string& name) const {
  if (options_.residual == ResidualKind::quadrature)
    return QuadratureFeedForward(options_, weights, name + ".mlp");
  Norm norm(options_, weights, name + ".post_attention_layernorm");
  FeedForward mlp(options_, weights, name + ".mlp");
  Residual residual(options_, weights, name + ".mlp_alpha", options_.mlp_alpha);
  return FeedForwardBranch{norm, mlp, residual};
}

std::string Transformer::reader_name(const Block& block) const {
  return block.name + (std::holds_alternative<Mixing>(block.reader) ? ".mixing" : ".self_attn");
}

Param Transformer::head() const {
  Param rows = head_ ? head_->weight() : embedding_->table();
  rows.name =
      "lm_head.weight";  // also where they are the embedding: a question about these rows is not one about the table
  if (options_.real_vocab_size < options_.vocab_size)
    rows.tensor = rows.tensor.narrow(0, 0, options_.real_vocab_size);
  return rows;
}

// A document goes from its first token, document_token, to the one before the next such token. What comes before the first is
// one as well.
at::Tensor Transformer::embed(const at::Tensor& tokens, Pass& pass) const {
  pass.begins.reset();
  if (options_.document_token >= 0) {
    const int64_t first = pass.cache == nullptr ? 0 : pass.cache->length;
    const at::Tensor places = at::arange(first, first + tokens.size(1), tokens.options());
    pass.begins = std::get<0>(places.mul(tokens.eq(options_.document_token)).cummax(1));
    if (pass.cache != nullptr && pass.cache->begins.defined())
      pass.begins = at::maximum(pass.begins, pass.cache->begins);
  }
  return embedding_->embed(tokens, pass);
}

at::Tensor Transformer::forward_from(const at::Tensor& embedded, Pass& pass) const {
  const auto seen = [&pass](const std::string& name, const at::Tensor& x) {
    if (pass.statistics != nullptr) pass.statistics->record(name, x);
    return x;
  };
  if (pass.begins.defined() && pass.begins.sizes() != embedded.sizes().slice(0, 2))
    throw InputError("forward",
                     fmt::format("begins of documents must be [{}, {}], as the tokens, got [{}]",
                                 embedded.size(0), embedded.size(1), fmt::join(pass.begins.sizes(), ", ")));
  const auto branch = [&](const at::Tensor& y) {
    return drop_path(dropout(y, options_.branch_dropout, pass), options_.drop_path, pass);
  };
  const auto before = [&](const Norm& norm, const at::Tensor& y) {
    return options_.norm_after ? y : norm.forward(y);
  };
  const auto after = [&](const Norm& norm, const at::Tensor& y) {
    return options_.norm_after ? norm.forward(y) : y;
  };
  KeyValueCache* cache = pass.cache;
  const int64_t first = cache == nullptr ? 0 : cache->length;
  if (cache != nullptr) cache->layers.resize(blocks_.size());
  at::Tensor x =
      seen("model.embed_tokens", dropout(embedding_->add_positions(embedded, first), options_.dropout, pass));
  for (size_t i = 0; i < blocks_.size(); ++i) {
    const Block& block = blocks_[i];
    KeyValueCache::Layer* kept = cache == nullptr ? nullptr : &cache->layers[i];
    const Overloaded read{[&](const Mixing& mixing) { return mixing.forward(x, pass, kept); },
                          [&](const AttentionBranch& own) {
                            const at::Tensor y = own.attention.forward(before(own.norm, x), pass, kept);
                            return after(own.norm, own.residual.forward(x, branch(y)));
                          }};
    x = seen(reader_name(block), std::visit(read, block.reader));
    const Overloaded feed{[&](const QuadratureFeedForward& own) { return own.forward(x, pass); },
                          [&](const FeedForwardBranch& own) {
                            const at::Tensor y = own.mlp.forward(before(own.norm, x));
                            return after(own.norm, own.residual.forward(x, branch(y)));
                          }};
    x = seen(block.name + ".mlp", std::visit(feed, block.feed_forward));
  }
  if (cache != nullptr) {
    cache->length += x.size(1);
    if (pass.begins.defined()) cache->begins = pass.begins.narrow(1, x.size(1) - 1, 1);
  }
  if (norm_) x = norm_->forward(x);
  at::Tensor logits = final_scale_->forward(at::linear(x, head().tensor.to(x.scalar_type())));
  if (logit_bias_) logits = logits.add(logit_bias_->tensor.to(x.scalar_type()));
  const double cap = options_.logit_soft_cap;
  return seen("lm_head", cap == 0.0 ? logits : logits.div(cap).tanh().mul(cap));
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
  const auto before = [&](const Norm& norm, const Bound& y) {
    return options_.norm_after ? y : norm.bound(y, walk);
  };
  const auto after = [&](const Norm& norm, const Bound& y) {
    return options_.norm_after ? norm.bound(y, walk) : y;
  };
  Bound x = record("model.embed_tokens", embedding_->bound(domain, walk));
  for (const Block& block : blocks_) {
    const Overloaded read{[&](const Mixing& mixing) { return mixing.bound(x, walk); },
                          [&](const AttentionBranch& own) {
                            const Bound y = own.attention.bound(before(own.norm, x), walk);
                            return after(own.norm, own.residual.bound(x, y, walk));
                          }};
    x = record(reader_name(block), std::visit(read, block.reader));
    const Overloaded feed{[&](const QuadratureFeedForward& own) { return own.bound(x, walk); },
                          [&](const FeedForwardBranch& own) {
                            const Bound y = own.mlp.bound(before(own.norm, x), walk);
                            return after(own.norm, own.residual.bound(x, y, walk));
                          }};
    x = record(block.name + ".mlp", std::visit(feed, block.feed_forward));
  }
  if (norm_) x = norm_->bound(x, walk);
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
  const auto before = [&](const Norm& norm, const Enclosure& y) {
    return options_.norm_after ? y : norm.enclose(y, walk);
  };
  const auto after = [&](const Norm& norm, const Enclosure& y) {
    return options_.norm_after ? norm.enclose(y, walk) : y;
  };
  Enclosure x = walk.record("model.embed_tokens", embedding_->enclose(embedded, walk));
  for (const Block& block : blocks_) {
    const Overloaded read{[&](const Mixing& mixing) { return mixing.enclose(x, walk); },
                          [&](const AttentionBranch& own) {
                            const Enclosure y = own.attention.enclose(before(own.norm, x), walk);
                            return after(own.norm, own.residual.enclose(x, y, walk));
                          }};
    x = walk.record(reader_name(block), std::visit(read, block.reader));
    const Overloaded feed{[&](const QuadratureFeedForward& own) { return own.enclose(x, walk); },
                          [&](const FeedForwardBranch& own) {
                            const Enclosure y = own.mlp.enclose(before(own.norm, x), walk);
                            return after(own.norm, own.residual.enclose(x, y, walk));
                          }};
    x = walk.record(block.name + ".mlp", std::visit(feed, block.feed_forward));
  }
  const Param rows = head();
  return enclose_logits(norm_ ? norm_->enclose(x, walk) : x,
                        {.rows = rows,
                         .scale = final_scale_->value(),
                         .bias = logit_bias_ ? &*logit_bias_ : nullptr,
                         .soft_cap = options_.logit_soft_cap},
                        walk);
}

}  // namespace bridle
