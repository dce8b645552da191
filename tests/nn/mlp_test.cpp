#include "nn/mlp.h"

#include <gtest/gtest.h>

#include "base/words.h"
#include "nn_support.h"
#include "support.h"

namespace bridle {
namespace {

MlpOptions small_mlp() { return {.layer_sizes = {12, 8, 8, 5}, .final_scale = 1.5}; }

TEST(MlpModel, GradientsAreThoseOfFiniteDifferences) {
  for (const ActivationKind activation : all_values<ActivationKind>()) {
    MlpOptions options = small_mlp();
    options.activation = activation;
    const auto model = make_model(options, 1, at::kDouble);
    std::vector<at::Tensor> tensors{test::normal({4, 12}, 1).requires_grad_(true)};
    uint64_t seed = 2;
    for (const Param& param : model->params()) {
      param.tensor.set_data(test::normal(param.tensor.sizes(), seed++).mul(0.5));
      tensors.push_back(param.tensor);
    }
    Pass pass{.dtype = at::kDouble};
    test::expect_gradients([&] { return model->forward(tensors[0], pass); }, tensors);
  }
}

TEST(MlpModel, NamesRolesAndBound) {
  const auto model = make_model(small_mlp(), 1);
  ASSERT_EQ(model->params().size(), 3U);
  EXPECT_EQ(model->params()[2].name, "model.layers.2.weight");
  EXPECT_EQ(model->params()[2].role, Role::head);
  EXPECT_EQ(model->params()[2].tensor.abs().max().item<double>(), 0.0);
  uint64_t seed = 2;
  double product = 1.5;
  for (const Param& param : model->params()) {
    param.tensor.set_data(test::normal(param.tensor.sizes(), seed++, at::kFloat));
    product *= test::spectral_norm(param.tensor.detach()) / param.unit();
  }
  const auto norms = measured_norms();
  Walk walk(*norms);
  const Bound bound = model->bound(model->input_bound(*norms), walk);
  EXPECT_GE(bound.lipschitz.to_double(), product);
  EXPECT_NEAR(bound.lipschitz.to_double() / product, 1.0, 1e-7);
  ASSERT_EQ(walk.layers.size(), 3U);
  EXPECT_EQ(walk.layers[2].bound, bound);
}

}  // namespace
}  // namespace bridle
