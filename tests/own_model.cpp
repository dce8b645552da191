#include "own_model.h"

#include <ATen/ops/linear.h>
#include <ATen/ops/tensor.h>

#include "bridle/random.h"

namespace bridle::test {
namespace {

constexpr int64_t kInputs = 16, kHidden = 16, kClasses = 4;

Param weight(const std::string& name, Role role, int64_t rows, uint64_t seed) {
  const at::Tensor values = random_uniform({rows, kHidden}, {.seed = seed, .stream = Stream::test});
  return {.name = name, .tensor = values.sub(0.5).mul(0.5).requires_grad_(true), .role = role};
}

}  // namespace

SineNetwork::SineNetwork(uint64_t seed) {
  params_ = {weight("first.weight", Role::linear, kHidden, 2 * seed),
             weight("second.weight", Role::head, kClasses, 2 * seed + 1)};
}

at::Tensor SineNetwork::embed(const at::Tensor& inputs, Pass& pass) const { return inputs.to(pass.dtype); }

at::Tensor SineNetwork::forward_from(const at::Tensor& embedded, Pass& pass) const {
  const at::Tensor hidden = at::linear(embedded, params_[0].tensor.to(pass.dtype)).sin();
  return at::linear(hidden, params_[1].tensor.to(pass.dtype));
}

// |sin x| ≤ |x|, with slope at most 1; from RMS to RMS a matrix [m, n] has its spectral norm times √(n/m): 1, then 2.
Bound SineNetwork::bound(const UpperBound& domain, Walk& walk) const {
  ++bounds;
  Bound x{.activation = domain, .lipschitz = 1.0};
  x = walk.record("first", x.affine(walk.norms.matrix(params_[0])), kHidden);
  return walk.record("second", x.affine(walk.norms.matrix(params_[1]) * 2.0), kClasses);
}

UpperBound SineNetwork::input_bound(NormSource& /*norms*/) const { return 1.0; }

ModelShape SineNetwork::shape() const {
  return {.input = InputKind::vectors, .size = kInputs, .outputs = kClasses};
}

QuarterSource::QuarterSource(int64_t size, uint64_t seed)
    : inputs_(random_uniform({size, kInputs}, {.seed = seed, .stream = Stream::test})),
      labels_(inputs_.reshape({size, kClasses, -1}).sum(-1).argmax(-1)) {}

Batch QuarterSource::read(std::span<const int64_t> starts) const {
  examples_read += std::ssize(starts);
  const at::Tensor places = at::tensor(at::IntArrayRef(starts.data(), starts.size()), at::kLong);
  return {inputs_.index_select(0, places), labels_.index_select(0, places)};
}

TrainerParts own_parts() {
  return {.model = std::make_unique<SineNetwork>(),
          .train = std::make_shared<QuarterSource>(256, 100),
          .validation = std::make_shared<QuarterSource>(64, 101)};
}

RunOptions own_run() {
  RunOptions options;
  options.data.batch_size = 16;
  options.optimizer.lr = 0.2;
  options.constraint.sigma_max = 1.0;
  options.training = {.steps = 20, .seed = 3, .log_every = 5, .evaluate_every = 10, .checkpoint_every = 10};
  return options;
}

}  // namespace bridle::test
