#include "nn/embedding.h"

#include <ATen/ops/embedding.h>
#include <fmt/format.h>

#include "bridle/error.h"
#include "nn/fused_embedding.h"

namespace bridle {

Embedding::Embedding(const TransformerOptions& options, Weights& weights)
    : table_(weights.table("model.embed_tokens.weight", Role::embedding, options.vocab_size,
                           options.hidden_size)) {
  switch (options.positions) {
    case PositionKind::learned:
      positions_ = weights.table("model.embed_positions.weight", Role::position_embedding,
                                 options.max_position_embeddings, options.hidden_size);
      break;
    case PositionKind::rope:  // inside attention
    case PositionKind::none:
      break;
  }
}

at::Tensor Embedding::embed(const at::Tensor& tokens, Pass& pass) const {
  return at::embedding(table_.tensor, tokens).to(pass.dtype);
}

at::Tensor Embedding::add_positions(const at::Tensor& x, int64_t first) const {
  if (!positions_) return x;
  check_length(first + x.size(1));
  return x.add(positions_->tensor.narrow(0, first, x.size(1)).to(x.scalar_type()));
}

void Embedding::check_length(int64_t tokens) const {
  if (positions_ && tokens > positions_->tensor.size(0))
    throw InputError(
        "forward",
        fmt::format("a sequence must have at most the {} tokens that positions were learned for, got {}",
                    positions_->tensor.size(0), tokens));
}

void Embedding::fuse(FusedProgram& program, FusedBuffer stream, FusedBuffer copy, double dropout) const {
  program.add(std::make_unique<FusedEmbedding>(
      program,
      FusedEmbeddingOptions{
          .table = table_, .positions = positions_, .stream = stream, .copy = copy, .dropout = dropout}));
}

Enclosure Embedding::enclose(const at::Tensor& embedded, const ErrorWalk& walk) const {
  const Enclosure x = walk.start(embedded);
  if (!positions_) return x;
  const at::Tensor rows = positions_->tensor.detach().narrow(0, 0, embedded.size(1)).to(at::kDouble);
  const at::Tensor cast = walk.cast_error(positions_->tensor.scalar_type(), x.error.dim());
  return walk.stored(add_positions(embedded, 0), x.reach, raised(x.error.add(row_lengths(rows).mul(cast))));
}

Bound Embedding::bound(const UpperBound& domain, Walk& walk) const {
  return {.activation = positions_ ? domain + walk.norms.largest_row_rms(*positions_) : domain,
          .lipschitz = 1.0};
}

}  // namespace bridle
