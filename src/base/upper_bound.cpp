// See bridle/upper_bound.h. Mantissas stay in [1, 2), so no operation can overflow, underflow or meet a
// denormal.
#include "bridle/upper_bound.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <limits>

#include "base/rounding.h"
#include "bridle/error.h"

namespace bridle {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr int64_t kExponentLimit = int64_t{1} << 52;  // exact as a double, and sums of two stay in range

// 2^-shift · x for a shift below 64; exact because x is a mantissa.
double shifted_right(double x, int64_t shift) { return std::ldexp(x, static_cast<int>(-shift)); }

// `text` is a printed decimal of `value`: raises its last digit until it is not below the value.
std::string print_rounded_up(double value, int digits) {
  double candidate = value;
  for (;;) {
    std::string text = fmt::format("{:.{}g}", candidate, digits);
    double printed = 0.0;  // read back without regard to the locale
    std::from_chars(text.data(), text.data() + text.size(), printed);
    if (printed >= value) return text;
    const double unit = std::pow(10.0, std::floor(std::log10(value)) - digits + 1);
    candidate += unit / 2;
  }
}

}  // namespace

UpperBound UpperBound::scaled(double mantissa, int64_t exponent) {
  if (std::isnan(mantissa) || mantissa < 0.0) {
    throw NumericError("upper bound", fmt::format("{} cannot bound a norm", mantissa));
  }
  UpperBound result;
  if (mantissa == 0.0) return result;
  int shift = 0;
  const double fraction = std::isinf(mantissa) ? mantissa : std::frexp(mantissa, &shift);  // in [0.5, 1)
  if (std::isinf(fraction) || exponent + shift - 1 > kExponentLimit) {
    result.mantissa_ = kInfinity;
    return result;
  }
  result.mantissa_ = 2.0 * fraction;
  result.exponent_ = exponent + shift - 1;
  if (result.exponent_ < -kExponentLimit) {  // rounds up to the least positive value
    result.mantissa_ = 1.0;
    result.exponent_ = -kExponentLimit;
  }
  return result;
}

UpperBound::UpperBound(double value) { *this = scaled(value, 0); }

UpperBound UpperBound::unbounded() { return {kInfinity}; }

bool UpperBound::is_unbounded() const { return std::isinf(mantissa_); }

double UpperBound::to_double() const {
  if (is_zero() || is_unbounded()) return mantissa_;
  if (exponent_ > 1023) return kInfinity;
  if (exponent_ < -1074) return std::numeric_limits<double>::denorm_min();
  const double value = std::ldexp(mantissa_, static_cast<int>(exponent_));
  // Only a denormal result can have been rounded; scaling back is exact.
  return std::ldexp(value, static_cast<int>(-exponent_)) < mantissa_ ? next_up(value) : value;
}

double UpperBound::log10() const {
  if (is_zero()) return -kInfinity;
  if (is_unbounded()) return kInfinity;
  constexpr double log10_of_2 = 0.30102999566398120;
  const double value = std::log10(mantissa_) + static_cast<double>(exponent_) * log10_of_2;
  // libm's log10 and the two operations are each within a few units of the terms' size.
  const double slack = 8 * std::numeric_limits<double>::epsilon() * (std::abs(value) + 1.0);
  return exponent_ == 0 && mantissa_ == 1.0 ? 0.0 : value + slack;
}

std::string UpperBound::to_string(int digits) const {
  if (is_zero()) return "0";
  if (is_unbounded()) return "unbounded";
  const double value = to_double();
  const bool ordinary = value > 1e-300 && value < 1e300;
  if (ordinary) return print_rounded_up(value, digits);
  const double exponent = log10();
  const double unit = std::pow(10.0, -(digits - 1));
  return fmt::format("10^{:.{}f}", std::ceil(exponent / unit) * unit, digits - 1);
}

UpperBound operator+(const UpperBound& a, const UpperBound& b) {
  if (a < b) return b + a;
  if (b.is_zero() || a.is_unbounded()) return a;
  const int64_t gap = a.exponent_ - b.exponent_;
  const double sum = gap < 64 ? add_up(a.mantissa_, shifted_right(b.mantissa_, gap)) : next_up(a.mantissa_);
  return UpperBound::scaled(sum, a.exponent_);
}

UpperBound operator*(const UpperBound& a, const UpperBound& b) {
  if (a.is_zero() || b.is_zero()) return {};
  if (a.is_unbounded() || b.is_unbounded()) return UpperBound::unbounded();
  return UpperBound::scaled(mul_up(a.mantissa_, b.mantissa_), a.exponent_ + b.exponent_);
}

UpperBound operator/(const UpperBound& a, double divisor) {
  if (!(divisor > 0.0) || std::isinf(divisor)) {
    throw NumericError("upper bound", fmt::format("cannot divide by {}", divisor));
  }
  if (a.is_zero() || a.is_unbounded()) return a;
  int exponent = 0;
  const double fraction = std::frexp(divisor, &exponent);
  return UpperBound::scaled(div_up(a.mantissa_, fraction), a.exponent_ - exponent);
}

UpperBound sqrt(const UpperBound& a) {
  if (a.is_zero() || a.is_unbounded()) return a;
  const bool odd = a.exponent_ % 2 != 0;
  return UpperBound::scaled(sqrt_up(odd ? 2.0 * a.mantissa_ : a.mantissa_),
                            (a.exponent_ - (odd ? 1 : 0)) / 2);
}

bool operator<(const UpperBound& a, const UpperBound& b) {
  if (a.is_zero() || b.is_unbounded()) return !(a == b);
  if (b.is_zero() || a.is_unbounded()) return false;
  return a.exponent_ != b.exponent_ ? a.exponent_ < b.exponent_ : a.mantissa_ < b.mantissa_;
}

}  // namespace bridle
