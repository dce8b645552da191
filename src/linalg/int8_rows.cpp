#include "linalg/int8_rows.h"

#include <ATen/TensorAccessor.h>
#include <ATen/ops/empty.h>

#include <cmath>

#include "bridle/error.h"

namespace bridle {
namespace {

constexpr double kLargestInteger = 127.0;
constexpr double kLeastRow = 0x1p-90;  // products of smaller scales would underflow
constexpr int kScaleBits = 16;

enum class Towards { larger, smaller };

double with_few_bits(double value, Towards side) {
  int exponent = 0;
  const double scaled = std::ldexp(std::frexp(value, &exponent), kScaleBits);
  return std::ldexp(side == Towards::larger ? std::ceil(scaled) : std::floor(scaled), exponent - kScaleBits);
}

}  // namespace

at::Tensor Int8Rows::values() const { return integers.to(at::kFloat).mul(scales.unsqueeze(1)); }

void Int8Rows::scale_down_(double factor) {
  const at::Tensor wide = scales.to(at::kDouble).contiguous();
  auto values = wide.accessor<double, 1>();
  for (int64_t i = 0; i < wide.numel(); ++i) {
    values[i] = with_few_bits(values[i] * factor, Towards::smaller);
    if (values[i] < kLeastRow / kLargestInteger) values[i] = 0.0;
  }
  scales = wide.to(at::kFloat);
}

Int8Rows int8_rows(const at::Tensor& weight) {
  if (weight.dim() != 2 || weight.numel() == 0)
    throw InputError("quantize", "8-bit rows are of matrices [rows, columns] with entries");
  const at::Tensor wide = weight.detach().cpu().to(at::kDouble).contiguous();
  if (!wide.isfinite().all().item<bool>())
    throw InputError("quantize", "a matrix must be finite to become 8-bit integers, and this one is not");
  const at::Tensor largest = wide.abs().amax(1);
  const at::Tensor scales = at::empty({wide.size(0)}, at::kDouble);
  auto scale = scales.accessor<double, 1>();
  const auto most = largest.accessor<double, 1>();
  for (int64_t i = 0; i < wide.size(0); ++i)
    scale[i] = most[i] < kLeastRow ? 0.0 : with_few_bits(most[i] / kLargestInteger, Towards::larger);
  const at::Tensor divisors = scales.masked_fill(scales.eq(0.0), 1.0).unsqueeze(1);
  const at::Tensor integers = wide.div(divisors).round().clamp(-kLargestInteger, kLargestInteger);
  return {integers.masked_fill(scales.eq(0.0).unsqueeze(1), 0.0).to(at::kChar), scales.to(at::kFloat)};
}

}  // namespace bridle
