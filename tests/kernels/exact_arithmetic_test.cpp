#include "kernels/exact_arithmetic.h"

#include <ATen/Parallel.h>
#include <ATen/ops/full.h>
#include <gtest/gtest.h>
#include <immintrin.h>

#include "bridle/linalg.h"

namespace bridle {
namespace {

constexpr unsigned kFlush = 0x8040;  // flush to zero, and read denormals as zero

class FlushedThreads : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    threads_ = at::get_num_threads();
    at::set_num_threads(GetParam());
    weight_ = at::full({512, 512}, 1e-39F);  // before the flushing, which would make it zero
    set(kFlush);
  }
  void TearDown() override {
    set(0);
    at::set_num_threads(threads_);
  }
  static void set(unsigned bits) {
    at::parallel_for(0, GetParam(), 1, [bits](int64_t, int64_t) { _mm_setcsr(0x1F80 | bits); });
  }
  Tensor weight_;

 private:
  int threads_ = 1;
};

TEST_P(FlushedThreads, DoNotMakeABoundTooSmall) {
  // 512 × 512 entries of 1e-39: denormal in float32, norm 5.12e-37. Flushed, they would pass for zero.
  EXPECT_FALSE(prove_spectral_norm(weight_, 1e-38));
  for (const auto method : {BoundMethod::cholesky, BoundMethod::gram, BoundMethod::svd}) {
    EXPECT_GE(spectral_norm_bound(weight_, {.method = method})->value.to_double(), 5.1e-37);
  }
  EXPECT_GE(row_rms_bound(weight_)->to_double(), 0.99e-39);
  EXPECT_EQ(_mm_getcsr() & kFlush, kFlush) << "the caller's setting is restored";
}

INSTANTIATE_TEST_SUITE_P(Threads, FlushedThreads, testing::Values(1, 2));

TEST(ExactArithmetic, RestoresTheRoundingModeToo) {
  const unsigned before = _mm_getcsr();
  _mm_setcsr(0x1F80 | 0x4000);  // towards +infinity
  {
    const ExactArithmetic exact;
    EXPECT_EQ(_mm_getcsr() & 0x6000, 0U);
  }
  EXPECT_EQ(_mm_getcsr() & 0x6000, 0x4000U);
  _mm_setcsr(before);
}

}  // namespace
}  // namespace bridle
