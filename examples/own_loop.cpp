// A training loop of one's own: two torch::nn::Linear layers and AdamW, with every layer's norm capped and proved after each
// step. Run it without arguments; it learns the sign of x·y and prints the norms that it ends with.
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/adamw.h>

#include <cstdio>
#include <vector>

#include "bridle/bridle.h"

namespace {

// Shares the layer's memory: what an Enforcer does to it, it does to the layer.
bridle::Param param(const char* name, const torch::nn::Linear& layer) {
  return {.name = name, .tensor = layer->weight.detach()};
}

}  // namespace

int main() {
  torch::manual_seed(1);
  torch::nn::Linear first(2, 64), second(64, 2);
  std::vector<at::Tensor> weights = {first->weight, first->bias, second->weight, second->bias};
  torch::optim::AdamW optimizer(weights, torch::optim::AdamWOptions(0.01));

  // `normalize` keeps its cap for any optimizer. RMS→RMS norms: 3 · 3 = 9 bounds the whole network, ReLU stretching nothing.
  std::vector<bridle::Enforcer> enforcers;
  enforcers.emplace_back(param("first", first), bridle::ConstraintOptions{.method = "normalize"}, 3.0);
  enforcers.emplace_back(param("second", second), bridle::ConstraintOptions{.method = "normalize"}, 3.0);
  for (bridle::Enforcer& enforcer : enforcers) enforcer.start_();

  double loss_value = 0.0;
  for (int step = 0; step < 300; ++step) {
    const at::Tensor x = torch::randn({256, 2});
    const at::Tensor label = x.prod(1).gt(0).to(torch::kLong);
    const at::Tensor loss = torch::nn::functional::cross_entropy(second(first(x).relu()), label);
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();

    for (bridle::Enforcer& enforcer : enforcers) {
      enforcer.enforce_({});         // scales the weight down where it is above its cap
      enforcer.prove_and_repair_();  // and now its norm is proved, rounding included
    }
    loss_value = loss.item<double>();
  }

  bridle::UpperBound bound = 1.0;
  for (const bridle::Enforcer& enforcer : enforcers) {
    const bridle::UpperBound norm = bridle::norm_bound(enforcer.param()).value();
    std::printf("%-7s norm at most %s\n", enforcer.param().name.c_str(), norm.to_string(6).c_str());
    bound = bound * norm;
  }
  std::printf("network bound at most %s, loss %.3f\n", bound.to_string(6).c_str(), loss_value);
}
