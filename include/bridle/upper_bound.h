// UpperBound: a nonnegative number that is never too small. It is mantissa · 2^exponent, mantissa in [1, 2),
// with an exponent wide enough for any network (10^5000 is an ordinary value here). Every operation rounds to
// the least representable number that is not below the exact result: docs/theory/rounding.md.
#pragma once

#include <cstdint>
#include <string>

namespace bridle {

class UpperBound {
 public:
  UpperBound() = default;  // zero

  // Exact. Throws NumericError for NaN and for negative numbers; +infinity is `unbounded()`.
  UpperBound(double value);  // NOLINT(google-explicit-constructor): numbers are bounds of themselves

  // mantissa · 2^exponent, exactly.
  static UpperBound scaled(double mantissa, int64_t exponent);

  // "No finite bound is known": larger than every other value.
  static UpperBound unbounded();

  bool is_zero() const { return mantissa_ == 0.0; }
  bool is_unbounded() const;
  double mantissa() const { return mantissa_; }
  int64_t exponent() const { return exponent_; }

  // The least double that is not below the value; +infinity where it overflows.
  double to_double() const;
  // log10 of the value, rounded up; -infinity for zero. For print: proofs never use it.
  double log10() const;
  // Decimal, rounded up in the last of `digits` places: "20", "1.61e-05", "1.00001e+264", "10^5000.3".
  std::string to_string(int digits = 6) const;

  UpperBound& operator+=(const UpperBound& other) { return *this = *this + other; }
  UpperBound& operator*=(const UpperBound& other) { return *this = *this * other; }

  friend UpperBound operator+(const UpperBound& a, const UpperBound& b);
  friend UpperBound operator*(const UpperBound& a, const UpperBound& b);
  // The divisor is taken as exact. Throws NumericError unless it is positive and finite.
  friend UpperBound operator/(const UpperBound& a, double divisor);
  friend UpperBound sqrt(const UpperBound& a);

  friend bool operator==(const UpperBound& a, const UpperBound& b) = default;
  friend bool operator<(const UpperBound& a, const UpperBound& b);
  friend bool operator<=(const UpperBound& a, const UpperBound& b) { return !(b < a); }
  friend bool operator>(const UpperBound& a, const UpperBound& b) { return b < a; }
  friend bool operator>=(const UpperBound& a, const UpperBound& b) { return !(a < b); }

 private:
  double mantissa_ = 0.0;  // 0, [1, 2), or +infinity
  int64_t exponent_ = 0;   // 0 where the mantissa is 0 or +infinity
};

inline UpperBound max(const UpperBound& a, const UpperBound& b) { return a < b ? b : a; }
inline UpperBound min(const UpperBound& a, const UpperBound& b) { return b < a ? b : a; }

}  // namespace bridle
