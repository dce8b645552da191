// While one of these lives, its thread takes denormals for zero, as AMX does anyway: they would make training slow. Never where a
// bound is computed; ExactArithmetic undoes it there.
#pragma once

#include <immintrin.h>

namespace bridle {

class FlushDenormals {
 public:
  FlushDenormals() : saved_(_mm_getcsr()) { _mm_setcsr(saved_ | kFlush); }
  ~FlushDenormals() { _mm_setcsr(saved_); }
  FlushDenormals(const FlushDenormals&) = delete;
  FlushDenormals& operator=(const FlushDenormals&) = delete;

 private:
  static constexpr unsigned kFlush = 0x8040;  // results, and operands
  unsigned saved_;
};

}  // namespace bridle
