// Caps the norm of one layer while Muon-like steps push it outwards as hard as they may, and proves the cap
// at every step. Run it without arguments; it prints what happened with and without the constraint.
#include <cstdio>

#include "bridle/bridle.h"

namespace {

struct Outcome {
  bridle::UpperBound largest_norm;  // of the weight over all steps, RMS→RMS
  int64_t repairs;
};

Outcome train(const char* method, double sigma_max) {
  using namespace bridle;
  const Tensor start = random_normal({256, 1024}, {.seed = 1, .stream = Stream::initial_weights});
  const Param weight{.name = "weight", .tensor = orthogonalize(start)};
  weight.tensor.mul_(weight.unit());
  Enforcer enforcer(weight, {.method = method}, sigma_max);
  enforcer.start_();
  Outcome outcome{};
  for (int step = 0; step < 50; ++step) {
    const StepInfo info{.learning_rate = 0.1 * (1.0 - step / 50.0),
                        .update_bound = update_bound(Coefficients::six_step)};
    weight.tensor.add_(orthogonalize(weight.tensor),
                       info.learning_rate * weight.unit());  // outwards: the worst case
    enforcer.enforce_(info);
    if (enforcer.constraint().uses_cap()) enforcer.prove_and_repair_();
    outcome.largest_norm = max(outcome.largest_norm, norm_bound(weight).value());
  }
  outcome.repairs = enforcer.repairs();
  return outcome;
}

}  // namespace

int main() {
  constexpr double sigma_max = 2.0;
  std::printf("50 worst-case steps on a 256 x 1024 layer, cap %.1f (RMS->RMS norm, verified from above)\n\n",
              sigma_max);
  std::printf("%-22s %14s %9s\n", "method", "largest norm", "repairs");
  for (const char* method : {"none", "soft_cap", "hard_cap", "normalize", "stiefel", "hammer"}) {
    const Outcome outcome = train(method, sigma_max);
    std::printf("%-22s %14s %9lld\n", method, outcome.largest_norm.to_string(7).c_str(),
                static_cast<long long>(outcome.repairs));
  }
}
