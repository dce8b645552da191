// Schedules. With p the part of the way after warm-up, from 0 to 1, the factor falls from 1 to f as
//   constant 1 · linear f + (1 − f)(1 − p) · cosine f + (1 − f)(1 + cos πp)/2,
// stable_decay like linear, but over the last decay_share of all steps. Warm-up: at most (t + 1)/warmup_steps.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "bridle/error.h"
#include "bridle/optim.h"

namespace bridle {
namespace {

void check(const ScheduleOptions& options, int64_t step, int64_t steps) {
  const auto in_unit_range = [](double x) { return x >= 0.0 && x <= 1.0; };
  if (step < 0 || steps < 1 || options.warmup_steps < 0) {
    throw InputError("schedule",
                     fmt::format("step {} of {} with {} steps of warm-up cannot be: steps are counted from 0",
                                 step, steps, options.warmup_steps));
  }
  if (!in_unit_range(options.decay_share) || !in_unit_range(options.final_share)) {
    throw InputError("schedule", fmt::format("decay_share {} and final_share {} must lie between 0 and 1",
                                             options.decay_share, options.final_share));
  }
}

// The part of the way from `begin` to `end` that lies behind step t.
double passed(double t, double begin, double end) {
  if (t >= end) return 1.0;
  return std::max(t - begin, 0.0) / (end - begin);
}

// What is left of the way down from 1 to 0.
double remaining(const ScheduleOptions& options, double t, double n) {
  switch (options.shape) {
    case ScheduleShape::constant:
      return 1.0;
    case ScheduleShape::linear:
      return 1.0 - passed(t, static_cast<double>(options.warmup_steps), n);
    case ScheduleShape::cosine:
      return (1.0 + std::cos(std::numbers::pi * passed(t, static_cast<double>(options.warmup_steps), n))) / 2;
    case ScheduleShape::stable_decay:
      return options.decay_share == 0.0 ? 1.0 : 1.0 - passed(t, n - options.decay_share * n, n);
  }
  throw InputError("schedule", "unknown shape");
}

}  // namespace

const char* word(ScheduleShape shape) {
  switch (shape) {
    case ScheduleShape::constant:
      return "constant";
    case ScheduleShape::linear:
      return "linear";
    case ScheduleShape::cosine:
      return "cosine";
    case ScheduleShape::stable_decay:
      return "stable_decay";
  }
  return nullptr;
}

double schedule_factor(const ScheduleOptions& options, int64_t step, int64_t steps) {
  check(options, step, steps);
  const auto t = static_cast<double>(step);
  const double left = remaining(options, t, static_cast<double>(steps));
  const double factor = options.final_share + (1.0 - options.final_share) * left;
  if (options.warmup_steps == 0) return factor;
  return std::min(factor, (t + 1.0) / static_cast<double>(options.warmup_steps));
}

}  // namespace bridle
