#include "certify/budget.h"

#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <cmath>

#include "bridle/certify.h"
#include "bridle/constraint.h"
#include "bridle/error.h"
#include "bridle/linalg.h"
#include "file_support.h"
#include "nn_support.h"
#include "support.h"

namespace bridle {
namespace {

std::vector<Param> by_head(const Model& model) {
  std::vector<Param> params = model.params();
  for (Param& param : params)
    if (param.role == Role::key || param.role == Role::value) param.blocks = 4;
  return params;
}

std::vector<at::Tensor> gradients_of(const std::vector<Param>& params, uint64_t seed) {
  std::vector<at::Tensor> gradients;
  for (const Param& param : params) gradients.push_back(test::normal(param.tensor.sizes(), seed++));
  return gradients;
}

// The model with weights far outside, brought inside the budget's caps.
double sealed_bound(const Model& model, const std::vector<Param>& params, const std::vector<double>& caps) {
  const at::NoGradGuard no_gradients;
  uint64_t seed = 90;
  for (size_t i = 0; i < params.size(); ++i) {
    params[i].tensor.copy_(test::normal(params[i].tensor.sizes(), seed++));
    if (caps[i] > 0.0) seal_(params[i], caps[i]);
  }
  const auto norms = measured_norms();
  Walk walk(*norms);
  return model.bound(model.input_bound(*norms), walk).lipschitz.to_double();
}

TEST(ABudget, CanBeAboutThePapersFormula) {
  const auto model = make_model(test::small_transformer(), 1);
  const std::vector<Param> params = model->params();
  Budget budget(*model, params, {.lipschitz = 3.0, .papers = true, .rate = 0.2});
  for (uint64_t move = 0; move < 10; ++move) {
    budget.observe(gradients_of(params, 10 * move));
    budget.move(1.0);
  }
  EXPECT_GE(budget.bound().to_double(), 0.9 * 3.0);
  sealed_bound(*model, params, budget.caps());
  EXPECT_LE(paper_formula(*model, *measured_norms()).to_double(), 3.0);
}

TEST(ABudget, IsSpentButNeverExceededWhateverThePricesAre) {
  for (const double lipschitz : {0.5, 2.0, 20.0, 1000.0}) {
    const auto model = make_model(test::small_transformer(), 1);
    const std::vector<Param> params = by_head(*model);
    Budget budget(*model, params, {.lipschitz = lipschitz, .rate = 0.2});
    EXPECT_LE(budget.bound().to_double(), lipschitz);
    EXPECT_GE(budget.bound().to_double(), 0.999 * lipschitz);
    for (uint64_t move = 0; move < 30; ++move) {
      budget.observe(gradients_of(params, 100 * move));
      const std::vector<double> before = budget.caps();
      const std::vector<double> factors = budget.move(1.0);
      EXPECT_LE(budget.bound().to_double(), lipschitz);
      for (size_t i = 0; i < factors.size(); ++i) {
        if (before[i] == 0.0) continue;
        EXPECT_LE(std::abs(std::log(budget.caps()[i] / before[i])), 0.4 + 1e-9);  // tightened, then moved
      }
    }
    EXPECT_LE(sealed_bound(*model, params, budget.caps()), lipschitz);
  }
}

// As the learning rate goes, caps close in on the norms, from above.
TEST(ABudget, IsAllUsedInTheEnd) {
  const auto model = make_model(MlpOptions{.layer_sizes = {8, 8, 8, 8}}, 1);
  {
    const at::NoGradGuard no_gradients;
    for (const Param& param : model->params())
      param.tensor.copy_(test::normal(param.tensor.sizes(), 5).mul(0.1));
  }
  Budget budget(*model, model->params(), {.lipschitz = 4.0});
  for (int i = 0; i < 400; ++i) {
    std::vector<at::Tensor> gradients;
    for (const Param& param : model->params()) gradients.push_back(param.tensor.detach().neg());
    budget.observe(gradients);
    const std::vector<double> factors = budget.move(1.0 - i / 400.0);
    const at::NoGradGuard no_gradients;
    for (size_t p = 0; p < factors.size(); ++p) model->params()[p].tensor.mul_(factors[p]);
    for (size_t p = 0; p < factors.size(); ++p) {
      const Param& param = model->params()[p];
      EXPECT_LE(spectral_norm_bound(param.tensor.detach())->value.to_double() / param.unit(),
                budget.caps()[p]);
    }
  }
  EXPECT_LE(budget.bound().to_double(), 4.0);
  EXPECT_GE(certify(*model).lipschitz.value, 0.99 * 4.0);
}

TEST(ABudget, MovesToWhereItBuysMore) {
  const auto model = make_model(MlpOptions{.layer_sizes = {6, 6, 6}}, 1);
  {
    const at::NoGradGuard no_gradients;
    for (const Param& param : model->params()) param.tensor.copy_(test::normal(param.tensor.sizes(), 5));
  }
  Budget budget(*model, model->params(), {.lipschitz = 4.0});
  const double first = budget.caps()[0];
  EXPECT_NEAR(first, 2.0, 1e-6);
  for (int i = 0; i < 20; ++i) {
    // A larger first weight lowers the loss; a larger second one does not.
    budget.observe(
        {model->params()[0].tensor.detach().neg(), at::Tensor(model->params()[1].tensor.detach())});
    budget.move(1.0);
  }
  EXPECT_GT(budget.caps()[0], 1.2 * first);
  EXPECT_NEAR(budget.caps()[0] * budget.caps()[1], 4.0, 1e-3);
}

TEST(ABudget, StaysWhereItIsWithUniformCaps) {
  const auto model = make_model(test::small_transformer(), 1);
  const std::vector<Param> params = by_head(*model);
  Budget budget(*model, params, {.lipschitz = 20.0, .moving = false});
  const std::vector<double> caps = budget.caps();
  budget.observe(gradients_of(params, 3));
  for (const double factor : budget.move(1.0)) EXPECT_EQ(factor, 1.0);
  EXPECT_EQ(budget.caps(), caps);
}

TEST(ABudget, ComesBackWithItsState) {
  const auto model = make_model(test::small_transformer(), 1);
  const std::vector<Param> params = by_head(*model);
  Budget budget(*model, params, {.lipschitz = 20.0});
  budget.observe(gradients_of(params, 3));
  budget.move(1.0);
  budget.observe(gradients_of(params, 4));
  Budget copy(*model, params, {.lipschitz = 20.0});
  copy.set_state(budget.state());
  EXPECT_EQ(copy.caps(), budget.caps());
  EXPECT_EQ(copy.move(1.0), budget.move(1.0));
  auto state = budget.state();
  state.at("caps").mul_(2.0);
  EXPECT_ERROR(copy.set_state(state), InputError, "above the budget");
}

TEST(ABudget, IsRefusedWhereItCannotBeKept) {
  const auto model = make_model(test::small_transformer(), 1);
  EXPECT_ERROR(Budget(*model, model->params(), {.lipschitz = 0.0}), InputError, "must be positive");
  EXPECT_ERROR(Budget(*model, model->params(), {.lipschitz = std::nan("")}), InputError, "must be positive");
  EXPECT_ERROR(Budget(*model, model->params(), {.lipschitz = 2.0, .embedding_cap = 0.0}), InputError,
               "constraint.embedding_cap");
  TransformerOptions tied = test::small_transformer();
  tied.tie_embeddings = true;  // the head cannot shrink
  const auto fixed = make_model(tied, 1);
  EXPECT_ERROR(Budget(*fixed, fixed->params(), {.lipschitz = 0.01}), InputError, "cannot be met");
  TransformerOptions normed = test::small_transformer();
  normed.norm = NormLayer::rms_norm;
  const auto gains = make_model(normed, 1);
  EXPECT_ERROR(Budget(*gains, gains->params(), {.lipschitz = 1e30}), InputError,
               "nothing caps model.layers.0");
}

}  // namespace
}  // namespace bridle
