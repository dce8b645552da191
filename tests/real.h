// Real numbers of 700 bits (210 digits) by MPFR, for references that no float64 computation can disturb.
#pragma once

#include <mpfr.h>

#include <utility>

namespace bridle::test {

class Real {
 public:
  Real(double value = 0.0) {  // NOLINT(google-explicit-constructor): doubles are exact
    mpfr_init2(number_, kBits);
    mpfr_set_d(number_, value, MPFR_RNDN);
  }
  Real(const Real& other) {
    mpfr_init2(number_, kBits);
    mpfr_set(number_, other.number_, MPFR_RNDN);
  }
  Real& operator=(const Real& other) {
    if (this != &other) mpfr_set(number_, other.number_, MPFR_RNDN);
    return *this;
  }
  ~Real() { mpfr_clear(number_); }

  double to_double() const { return mpfr_get_d(number_, MPFR_RNDN); }
  // Rounded toward zero and away from it: for comparisons with bounds.
  double magnitude_below() const { return mpfr_get_d(number_, MPFR_RNDZ); }

  friend Real operator+(const Real& a, const Real& b) { return from(mpfr_add, a, b); }
  friend Real operator-(const Real& a, const Real& b) { return from(mpfr_sub, a, b); }
  friend Real operator*(const Real& a, const Real& b) { return from(mpfr_mul, a, b); }
  friend Real operator/(const Real& a, const Real& b) { return from(mpfr_div, a, b); }
  Real& operator+=(const Real& other) { return *this = *this + other; }
  friend bool operator<(const Real& a, const Real& b) { return mpfr_less_p(a.number_, b.number_) != 0; }
  friend bool operator<=(const Real& a, const Real& b) { return mpfr_lessequal_p(a.number_, b.number_) != 0; }

  friend Real sqrt(const Real& a) { return from(mpfr_sqrt, a); }
  friend Real exp(const Real& a) { return from(mpfr_exp, a); }
  friend Real tanh(const Real& a) { return from(mpfr_tanh, a); }
  friend Real erf(const Real& a) { return from(mpfr_erf, a); }
  friend Real sin(const Real& a) { return from(mpfr_sin, a); }
  friend Real cos(const Real& a) { return from(mpfr_cos, a); }
  friend Real pow(const Real& a, const Real& b) { return from(mpfr_pow, a, b); }
  friend Real abs(const Real& a) { return from(mpfr_abs, a); }
  static Real pi() {
    Real result;
    mpfr_const_pi(result.number_, MPFR_RNDN);
    return result;
  }

 private:
  static constexpr mpfr_prec_t kBits = 700;
  template <class F>
  static Real from(F f, const Real& a, const Real& b) {
    Real result;
    f(result.number_, a.number_, b.number_, MPFR_RNDN);
    return result;
  }
  template <class F>
  static Real from(F f, const Real& a) {
    Real result;
    f(result.number_, a.number_, MPFR_RNDN);
    return result;
  }
  mpfr_t number_;
};

inline const Real& max(const Real& a, const Real& b) { return a < b ? b : a; }
inline const Real& min(const Real& a, const Real& b) { return b < a ? b : a; }

}  // namespace bridle::test
