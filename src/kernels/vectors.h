// Sixteen numbers at a time, in GCC's vector types: one text for every instruction set that a file is compiled for. Everything
// is static, so that no file's version can stand in for another's. bfloat16 numbers are uint16_t. `Value` is what a file's
// activations are: float where BRIDLE_STEP_FLOAT32 is defined, else bfloat16.
#pragma once

#include <cstdint>
#include <cstring>

#if defined(__AVX512F__)
// GCC 12 warns of the undefined operands inside its own AVX-512 intrinsics (GCC bug 105593).
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>
#endif

namespace bridle {
namespace {

#define BRIDLE_INLINE [[gnu::always_inline]] inline

constexpr int64_t kLanes = 16;
typedef float Floats __attribute__((vector_size(64)));
typedef int32_t Ints __attribute__((vector_size(64)));
typedef uint32_t Words __attribute__((vector_size(64)));
typedef uint16_t Halves __attribute__((vector_size(32)));

#if defined(BRIDLE_STEP_FLOAT32)
typedef float Value;
#else
typedef uint16_t Value;
#endif
constexpr bool kFloat32 = sizeof(Value) == sizeof(float);

BRIDLE_INLINE Floats splat(float x) { return Floats{} + x; }
BRIDLE_INLINE Ints count_up(int32_t first) {
  return Ints{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15} + first;
}

BRIDLE_INLINE Floats load(const float* p) {
  Floats x;
  std::memcpy(&x, p, sizeof(x));
  return x;
}
BRIDLE_INLINE void store(float* p, Floats x) { std::memcpy(p, &x, sizeof(x)); }

BRIDLE_INLINE Floats load(const uint16_t* p) {
#if defined(__AVX512F__)
  const __m256i half = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  return reinterpret_cast<Floats>(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16));
#else
  Halves half;
  std::memcpy(&half, p, sizeof(half));
  return reinterpret_cast<Floats>(__builtin_convertvector(half, Words) << 16);
#endif
}

// Rounded to the nearest, ties to even; NaN stays NaN.
BRIDLE_INLINE void store(uint16_t* p, Floats x) {
#if defined(__AVX512BF16__)
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                      reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(reinterpret_cast<__m512>(x))));
#else
  const Words bits = reinterpret_cast<Words>(x);
  const Words rounded = bits + 0x7fffU + ((bits >> 16) & 1U);
  const Words kept = reinterpret_cast<Words>(x == x) & rounded;
  const Words nan = reinterpret_cast<Words>(x != x) & 0x7fc00000U;
  const Halves half = __builtin_convertvector((kept | nan) >> 16, Halves);
  std::memcpy(p, &half, sizeof(half));
#endif
}

// 32 numbers: a whole cache line.
BRIDLE_INLINE void store_line(uint16_t* p, Floats first, Floats second) {
#if defined(__AVX512BF16__)
  const auto line = _mm512_cvtne2ps_pbh(reinterpret_cast<__m512>(second), reinterpret_cast<__m512>(first));
  _mm512_storeu_si512(p, reinterpret_cast<__m512i>(line));
#else
  store(p, first);
  store(p + kLanes, second);
#endif
}
BRIDLE_INLINE void store_line(float* p, Floats first, Floats second) {
  store(p, first);
  store(p + kLanes, second);
}

#if defined(__AVX512F__)
BRIDLE_INLINE Floats larger(Floats a, Floats b) {
  return reinterpret_cast<Floats>(_mm512_max_ps(reinterpret_cast<__m512>(a), reinterpret_cast<__m512>(b)));
}
#else
BRIDLE_INLINE Floats larger(Floats a, Floats b) { return a > b ? a : b; }
#endif

// Lanes folded in halves.
BRIDLE_INLINE Floats folded(Floats x, int distance) { return __builtin_shuffle(x, count_up(distance) & 15); }
BRIDLE_INLINE float sum_of(Floats x) {
  x = x + folded(x, 8);
  x = x + folded(x, 4);
  x = x + folded(x, 2);
  return x[0] + x[1];
}
BRIDLE_INLINE float largest_of(Floats x) {
  x = larger(x, folded(x, 8));
  x = larger(x, folded(x, 4));
  x = larger(x, folded(x, 2));
  return x[0] > x[1] ? x[0] : x[1];
}

// 2ˣ, relatively to about 4e-5 with four terms after the first, 3e-6 with five and 1e-7 with seven; 0 at −∞ and wherever it would
// be denormal.
// The power of the nearest integer times a polynomial on [−1/2, 1/2].
template <int terms>
BRIDLE_INLINE Floats power_of_two(Floats x) {
  constexpr float c[] = {1.0F,        0.69314718F, 0.24022651F, 0.05550411F,
                         0.00961813F, 0.00133336F, 0.00015404F, 0.00001525F};
#if defined(__AVX512DQ__)
  const auto whole = reinterpret_cast<Floats>(_mm512_roundscale_ps(reinterpret_cast<__m512>(x), 0));
  const auto rest = reinterpret_cast<Floats>(_mm512_reduce_ps(reinterpret_cast<__m512>(x), 0));
#else
  constexpr float shift =
      12582912.0F;  // 1.5·2²³: adding it rounds to an integer, which stands in the low bits
  const Floats clamped = x < -126.0F ? splat(-126.0F) : (x > 126.0F ? splat(126.0F) : x);
  const Floats shifted = clamped + shift;
  const Floats rest = clamped - (shifted - shift);
#endif
  Floats p = splat(c[terms]);
#pragma GCC unroll 8
  for (int i = terms - 1; i >= 0; --i) p = p * rest + c[i];
#if defined(__AVX512DQ__)
  return reinterpret_cast<Floats>(
      _mm512_scalef_ps(reinterpret_cast<__m512>(p), reinterpret_cast<__m512>(whole)));
#else
  const Floats scaled =
      reinterpret_cast<Floats>(reinterpret_cast<Words>(p) + (reinterpret_cast<Words>(shifted) << 23));
  return x < -126.0F ? splat(0.0F) : scaled;
#endif
}

constexpr float kLog2e = 1.44269504F, kLn2 = 0.69314718F;
constexpr int kTerms = kFloat32 ? 7 : 5;  // of 2ˣ, as exactly as values need it
BRIDLE_INLINE Floats exponential(Floats x) { return power_of_two<kTerms>(x * kLog2e); }

// 1/x for positive x, to about 1e-4 where values are bfloat16; 0 at ∞.
BRIDLE_INLINE Floats rough_reciprocal(Floats x) {
#if defined(__AVX512F__) && !defined(BRIDLE_STEP_FLOAT32)
  return reinterpret_cast<Floats>(_mm512_rcp14_ps(reinterpret_cast<__m512>(x)));
#else
  return 1.0F / x;
#endif
}

}  // namespace
}  // namespace bridle
