#include "io/vnnlib.h"

#include <ATen/TensorAccessor.h>
#include <fmt/format.h>

#include "base/rounding.h"
#include "bridle/error.h"

namespace bridle {
namespace {

constexpr double kDecimals = 1e-17;

}  // namespace

std::string vnnlib_text(const VnnlibProperty& property) {
  const at::Tensor wide = property.vector.detach().cpu().to(at::kDouble).contiguous();
  const auto x = wide.accessor<double, 1>();
  std::string text = fmt::format("; {}\n", property.note);
  for (int64_t i = 0; i < wide.numel(); ++i) text += fmt::format("(declare-const X_{} Real)\n", i);
  for (int64_t j = 0; j < property.outputs; ++j) text += fmt::format("(declare-const Y_{} Real)\n", j);
  for (int64_t i = 0; i < wide.numel(); ++i) {
    // Inwards, by more than the 17 decimals below round.
    const double low = add_up(-add_down(property.epsilon, -x[i]), kDecimals);
    const double high = add_down(add_down(x[i], property.epsilon), -kDecimals);
    if (!(low <= high))
      throw InputError("export",
                       fmt::format("the property's box must hold a number, and {} around {} does not",
                                   property.epsilon, x[i]));
    text += fmt::format("(assert (>= X_{0} {1:.17f}))\n(assert (<= X_{0} {2:.17f}))\n", i, low, high);
  }
  text += "(assert (or\n";
  for (int64_t j = 0; j < property.outputs; ++j)
    if (j != property.predicted) text += fmt::format("  (and (>= Y_{} Y_{}))\n", j, property.predicted);
  return text + "))\n";
}

}  // namespace bridle
