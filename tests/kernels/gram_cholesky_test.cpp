#include "kernels/gram_cholesky.h"

#include <ATen/ops/eye.h>
#include <gtest/gtest.h>

#include "support.h"

namespace bridle {
namespace {

using at::Tensor;

TEST(LowerGram, AgreesWithItsTwin) {
  for (const auto& [m, n] :
       {std::pair{1, 1}, {1, 7}, {7, 1}, {40, 40}, {65, 256}, {300, 129}, {40, 700}, {700, 40}}) {
    const Tensor w = test::normal({m, n}, 1).to(at::kDouble);
    for (const Tensor& each : {w, w.t(), w.repeat({2, 2}).narrow(0, 0, m).narrow(1, 0, n), w.to(at::kFloat),
                               w.to(at::kBFloat16)}) {
      EXPECT_LT(lower_gram(each).sub(lower_gram_plain(each)).abs().max().item<double>(),
                1e-12 * std::max(m, n));
    }
  }
}

TEST(Cholesky, AgreesWithItsTwin) {
  for (const int64_t n : {1, 2, 65, 257}) {
    Tensor m = lower_gram(test::normal({n, n + 3}, 2).to(at::kDouble)), plain = m.clone();
    ASSERT_TRUE(cholesky_(m));
    ASSERT_TRUE(cholesky_plain_(plain));
    EXPECT_LT(m.tril().sub(plain).abs().max().item<double>(), 1e-10 * static_cast<double>(n));
  }
}

TEST(Cholesky, SaysWhereAMatrixIsNotPositive) {
  for (const int64_t n : {2, 100, 300}) {
    Tensor m = at::eye(n, at::kDouble);
    m[n - 1][0] = 1.001;
    EXPECT_FALSE(cholesky_(m));
    m = at::eye(n, at::kDouble);
    m[n / 2][n / 2] = -1e-12;
    EXPECT_FALSE(cholesky_(m));
    m = at::eye(n, at::kDouble);
    m[n - 1][0] = 0.999;
    EXPECT_TRUE(cholesky_(m));
  }
}

}  // namespace
}  // namespace bridle
