#include "robust/certified_radius.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "bridle/error.h"
#include "export_support.h"
#include "file_support.h"
#include "support.h"

namespace bridle {
namespace {

// The nearest input with another answer that gradients find.
double nearest_change(const Model& model, const at::Tensor& x, int64_t predicted) {
  double nearest = 1e300;
  for (int64_t other = 0; other < model.shape().outputs; ++other) {
    if (other == predicted) continue;
    at::Tensor moved = x.clone();
    for (int step = 0; step < 60; ++step) {
      const at::Tensor leaf = moved.detach().requires_grad_(true);
      Pass pass{.dtype = at::kDouble};
      const at::Tensor logits = model.forward(leaf.unsqueeze(0), pass)[0];
      const at::Tensor lead = logits[predicted].sub(logits[other]);
      if (lead.item<double>() < 0.0) {
        nearest = std::min(nearest, moved.sub(x).norm().item<double>());
        break;
      }
      const at::Tensor slope = torch::autograd::grad({lead}, {leaf})[0];
      const double square = slope.square().sum().item<double>();
      if (square == 0.0) break;
      moved = moved.sub(slope.mul(1.02 * lead.item<double>() / square + 1e-9));
    }
  }
  return nearest;
}

TEST(ACertifiedRadius, IsNeverAboveWhatASearchFindsAndForALinearModelIsTheDistance) {
  const auto linear = test::trained_like(MlpOptions{.layer_sizes = {8, 4}, .final_scale = -1.5}, 3);
  const auto deep = test::trained_like(
      MlpOptions{.layer_sizes = {8, 16, 16, 4}, .activation = ActivationKind::maxmin, .bias = true}, 4);
  for (const auto* model : {linear.get(), deep.get()}) {
    const CertifiedBound bound = certify(*model);
    for (uint64_t seed = 0; seed < 20; ++seed) {
      const at::Tensor x = test::normal({8}, seed);
      const CertifiedRadius radius = certified_radius(*model, bound, x);
      const double found = nearest_change(*model, x, radius.predicted);
      ASSERT_GT(radius.euclidean, 0.0);
      EXPECT_LE(radius.euclidean, found * (1.0 + 1e-9));
      EXPECT_LE(radius.largest * std::sqrt(8.0), radius.euclidean * (1.0 + 1e-12));
      if (model != linear.get()) continue;
      EXPECT_NEAR(radius.euclidean, found, 0.03 * found);
    }
  }
}

TEST(ACertifiedRadius, IsZeroForATieAndRefusedWhereThereIsNone) {
  const auto zero = make_model(MlpOptions{.layer_sizes = {4, 3}}, std::nullopt);
  EXPECT_EQ(certified_radius(*zero, certify(*zero), test::normal({4}, 1)).euclidean, 0.0);
  const auto squared =
      test::trained_like(MlpOptions{.layer_sizes = {4, 4, 3}, .activation = ActivationKind::relu_squared});
  EXPECT_ERROR(certified_radius(*squared, certify(*squared), test::normal({4}, 1)), InputError,
               "relu_squared");
  EXPECT_ERROR(certified_radius(*zero, certify(*zero), test::normal({5}, 1)), InputError, "as many entries");
  const auto single = test::trained_like(MlpOptions{.layer_sizes = {4, 1}});
  EXPECT_ERROR(certified_radius(*single, certify(*single), test::normal({4}, 1)), InputError, "one output");
}

}  // namespace
}  // namespace bridle
