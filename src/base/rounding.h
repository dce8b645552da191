// Directed rounding without touching the rounding mode: the operation is done to nearest, its error is
// recovered exactly (two-sum, fused multiply-add), and the result is moved by one unit only where it fell on
// the wrong side. Requires finite operands; near underflow, where errors are not representable, the result is
// always moved.
#pragma once

#include <cmath>
#include <limits>

namespace bridle {

inline double next_up(double x) { return std::nextafter(x, std::numeric_limits<double>::infinity()); }
inline double next_down(double x) { return std::nextafter(x, -std::numeric_limits<double>::infinity()); }

inline double add_up(double a, double b) {
  const double sum = a + b;
  const double b_part = sum - a;
  const double error = (a - (sum - b_part)) + (b - b_part);
  return error > 0.0 ? next_up(sum) : sum;
}

inline double mul_up(double a, double b) {
  const double product = a * b;
  if (a == 0.0 || b == 0.0) return 0.0;
  constexpr double tiny = 0x1p-900;
  if (std::abs(product) < tiny) return next_up(product);
  return std::fma(a, b, -product) > 0.0 ? next_up(product) : product;
}

inline double div_up(double a, double b) {
  const double quotient = a / b;
  if (a == 0.0) return 0.0;
  constexpr double tiny = 0x1p-900;
  if (std::abs(quotient) < tiny || std::abs(a) < tiny) return next_up(quotient);
  const double rest = std::fma(-quotient, b, a);  // a − quotient·b, exactly
  return (b > 0.0 ? rest > 0.0 : rest < 0.0) ? next_up(quotient) : quotient;
}

inline double sqrt_up(double a) {
  const double root = std::sqrt(a);
  constexpr double tiny = 0x1p-900;
  if (a == 0.0) return 0.0;
  if (a < tiny) return next_up(root);
  return std::fma(-root, root, a) > 0.0 ? next_up(root) : root;
}

inline double add_down(double a, double b) { return -add_up(-a, -b); }
inline double mul_down(double a, double b) { return -mul_up(-a, b); }
inline double div_down(double a, double b) { return -div_up(-a, b); }

}  // namespace bridle
