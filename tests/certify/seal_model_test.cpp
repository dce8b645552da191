#include "certify/seal_model.h"

#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include "bridle/certify.h"
#include "bridle/error.h"
#include "file_support.h"
#include "nn_support.h"
#include "support.h"

namespace bridle {
namespace {

TEST(ASealedModel, KeepsTheBoundItIsGiven) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    const auto model = make_model(test::small_transformer(), 1, dtype);
    {
      const at::NoGradGuard no_gradients;
      uint64_t seed = 1;
      for (const Param& param : model->params())
        param.tensor.copy_(test::normal(param.tensor.sizes(), seed++).mul(0.4));
    }
    const double before = certify(*model).lipschitz.value;
    EXPECT_TRUE(
        seal_model_(model->params(), caps_within(*model, model->params(), 2.0 * before * 100)).empty());
    const double wanted = before / 10.0;
    EXPECT_FALSE(seal_model_(model->params(), caps_within(*model, model->params(), wanted)).empty());
    EXPECT_LE(certify(*model).lipschitz.value, wanted * (1 + 1e-6));
    EXPECT_ERROR(caps_within(*model, model->params(), -1.0), InputError, "must be positive, got -1");
  }
}

}  // namespace
}  // namespace bridle
