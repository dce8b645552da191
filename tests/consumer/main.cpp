// A program that knows nothing of Bridle but its installed headers: caps the spectral norm of a plain Linear.
#include <bridle/bridle.h>
#include <torch/nn/modules/linear.h>

int main() {
  torch::NoGradGuard no_grad;
  torch::nn::Linear layer(64, 32);
  layer->weight.mul_(100.0);
  const bridle::Param weight{.name = "weight", .tensor = layer->weight.detach()};
  bridle::Enforcer enforcer({.method = "soft_cap"});
  enforcer.start_(weight, 2.0);
  layer->weight.add_(0.05 * bridle::orthogonalize(torch::randn({32, 64})) * weight.unit());
  enforcer.enforce_(weight, 2.0, {.learning_rate = 0.05, .update_bound = 1.0});
  enforcer.prove_and_repair_(weight, 2.0);
  return bridle::prove_norm(weight, 2.0) ? 0 : 1;
}
