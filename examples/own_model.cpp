// A model and data of one's own, trained under a bound: x ↦ W₂ sin(W₁x) learns which quarter of 16 numbers has the largest
// sum. own_model FOLDER trains in that folder; the same command goes on with a run that is there.
#include <ATen/ops/linear.h>
#include <ATen/ops/tensor.h>

#include <cstdio>
#include <filesystem>

#include "bridle/bridle.h"

namespace {

constexpr int64_t kInputs = 16, kHidden = 32, kClasses = 4;

bridle::Param weight(const char* name, bridle::Role role, int64_t rows, int64_t columns, uint64_t seed) {
  const at::Tensor start =
      bridle::random_normal({rows, columns}, {.seed = seed}).mul(0.1).requires_grad_(true);
  return {.name = name, .tensor = start, .role = role};
}

class SineNetwork : public bridle::Model {
 public:
  SineNetwork() {
    params_ = {weight("first.weight", bridle::Role::linear, kHidden, kInputs, 1),
               weight("second.weight", bridle::Role::head, kClasses, kHidden, 2)};
  }

  at::Tensor embed(const at::Tensor& inputs, bridle::Pass& pass) const override {
    return inputs.to(pass.dtype);
  }

  at::Tensor forward_from(const at::Tensor& embedded, bridle::Pass& pass) const override {
    const at::Tensor hidden = at::linear(embedded, params_[0].tensor.to(pass.dtype)).sin();
    return at::linear(hidden, params_[1].tensor.to(pass.dtype));
  }

  // The same walk as the forward pass, over norms instead of signals. σ(W)·√(in/out) is the RMS→RMS norm of a matrix; sine
  // stretches nothing, since its slope is at most 1, and makes nothing larger.
  bridle::Bound bound(const bridle::UpperBound& domain, bridle::Walk& walk) const override {
    bridle::Bound x{.activation = domain, .lipschitz = 1.0};
    x = walk.record("first", x.affine(norm(0, walk)), kHidden);
    return walk.record("second", x.affine(norm(1, walk)), kClasses);
  }

  bridle::UpperBound input_bound(bridle::NormSource& /*norms*/) const override {
    return 1.0;
  }  // inputs in [0, 1]

  bridle::ModelShape shape() const override {
    return {.input = bridle::InputKind::vectors, .size = kInputs, .outputs = kClasses};
  }

 private:
  bridle::UpperBound norm(size_t i, bridle::Walk& walk) const {
    const bridle::UpperBound ratio = static_cast<double>(params_[i].tensor.size(1));
    return walk.norms.matrix(params_[i]) * sqrt(ratio / static_cast<double>(params_[i].tensor.size(0)));
  }
};

// Examples are known by their place; batch number i depends on the seed and i alone.
class Quarters : public bridle::Source {
 public:
  Quarters(int64_t size, uint64_t seed)
      : inputs_(bridle::random_uniform({size, kInputs}, {.seed = seed})),
        labels_(inputs_.reshape({size, kClasses, -1}).sum(-1).argmax(-1)) {}
  int64_t size() const override { return inputs_.size(0); }
  int64_t stride() const override { return 1; }
  bridle::Batch read(std::span<const int64_t> starts) const override {
    const at::Tensor places = at::tensor(at::IntArrayRef(starts.data(), starts.size()), at::kLong);
    return {inputs_.index_select(0, places), labels_.index_select(0, places)};
  }

 private:
  at::Tensor inputs_, labels_;
};

bridle::TrainerParts parts() {
  return {.model = std::make_unique<SineNetwork>(),
          .train = std::make_shared<Quarters>(4096, 3),
          .validation = std::make_shared<Quarters>(1024, 4)};
}

bridle::RunOptions options() {
  bridle::RunOptions options;
  options.data.batch_size = 64;
  options.optimizer.lr = 0.2;
  options.constraint.lipschitz = 10.0;  // the budget
  options.training = {.steps = 400, .seed = 1};
  return options;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: own_model FOLDER\n");
    return 2;
  }
  const bool is_there = std::filesystem::exists(std::filesystem::path(argv[1]) / "config.toml");
  const bridle::TrainSummary summary = is_there ? bridle::Trainer::resume(argv[1], parts())->run()
                                                : bridle::Trainer(options(), parts(), argv[1]).run();
  const bridle::UpperBound bound = summary.bound->lipschitz.value;  // printed rounded up
  std::printf("accuracy %.1f %%, Lipschitz bound at most %s\n", 100.0 * summary.validation_accuracy,
              bound.to_string(5).c_str());
}
