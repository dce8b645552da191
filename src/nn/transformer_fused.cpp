// The fused pass of a transformer.
#include "base/overloaded.h"
#include "nn/fused_loss.h"
#include "nn/fused_norm.h"
#include "nn/transformer.h"
#include "nn/transformer_options.h"

namespace bridle {

std::string Transformer::why_not_fused(const Pass& pass) const {
  const std::string key = unfused_key(options_);
  return key.empty() ? why_not_fused_pass(pass) : "model." + key;
}

std::unique_ptr<FusedProgram> Transformer::fused_program(const StepKernels& kernels) const {
  auto program = std::make_unique<FusedProgram>(params_, kernels);
  const int64_t size = options_.hidden_size;
  const FusedBuffer stream = program->floats(padded(size));
  FusedBuffer copy = program->matrix(size), d_copy = program->matrix(size);
  const auto observe = [&](const std::string& name) {
    program->add(std::make_unique<FusedStatistics>(name, stream, size));
  };
  const auto point = [&](FusedNumber keep) {  // the stream as it is, for a branch or the head
    return FusedValue{
        .values = copy, .gradient = d_copy, .epilogue = Epilogue::residual, .stream = stream, .keep = keep};
  };
  embedding_->fuse(*program, stream, copy, options_.dropout);
  observe("model.embed_tokens");
  program->cut_backward();
  const auto end_here = [&] {  // what the stream becomes, and its copy
    FusedEnd end{.stream = stream, .out = program->matrix(size), .d_out = program->matrix(size)};
    return end;
  };
  const auto goes_on = [&](const FusedEnd& end) {
    copy = end.out;
    d_copy = end.d_out;
  };
  const auto branch = [&](const Norm& norm, const auto& module, const Residual& residual) {
    FusedEnd end = end_here();
    end.keep = residual.keep(*program);
    end.share = residual.share(*program);
    end.alpha = residual.learned();
    if (end.alpha && !residual.keeps_all()) end.before = copy;
    end.dropout = options_.branch_dropout;
    end.drop_path = options_.drop_path;
    module.fuse(*program, norm.fuse(*program, point(end.keep)), end);
    goes_on(end);
  };
  const auto replace = [&](const auto& module) {  // what it gives takes the stream's place
    FusedEnd end = end_here();
    end.keep = {0.0F};
    module.fuse(*program, point({0.0F}), end);
    goes_on(end);
  };
  const Overloaded read{[&](const Mixing& own) { replace(own); },
                        [&](const AttentionBranch& own) { branch(own.norm, own.attention, own.residual); }};
  const Overloaded feed{[&](const QuadratureFeedForward& own) { replace(own); },
                        [&](const FeedForwardBranch& own) { branch(own.norm, own.mlp, own.residual); }};
  for (const Block& block : blocks_) {
    std::visit(read, block.reader);
    observe(reader_name(block));
    std::visit(feed, block.feed_forward);
    observe(block.name + ".mlp");
    program->cut_backward();
  }
  const FusedValue last = norm_ ? norm_->fuse(*program, point({0.0F})) : point({0.0F});
  program->cut_forward();
  program->add(std::make_unique<FusedLoss>(
      *program, FusedLossOptions{.head = head_ ? head_->weight() : embedding_->table(),
                                 .outputs = options_.real_vocab_size,
                                 .in = last,
                                 .scale = static_cast<float>(final_scale_->value()),
                                 .learned_scale = final_scale_->learned(),
                                 .bias = logit_bias_,
                                 .soft_cap = static_cast<float>(options_.logit_soft_cap)}));
  program->finish();
  return program;
}

std::optional<LossAndGradients> Transformer::fused_loss(const at::Tensor& tokens, const at::Tensor& targets,
                                                        Pass& pass, bool gradients) const {
  if (!can_fuse(pass)) return std::nullopt;
  if (tokens.dim() == 2) embedding_->check_length(tokens.size(1));
  return fused_.of(*fused_values(pass))
      .run_tokens(tokens, targets, shape(),
                  {.size = options_.vocab_size, .document_token = options_.document_token}, pass, gradients);
}

}  // namespace bridle
