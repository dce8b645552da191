#include "nn/weights.h"

#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include "bridle/error.h"
#include "file_support.h"
#include "nn_support.h"
#include "support.h"

namespace bridle {
namespace {

using test::Bench;

TEST(InitialWeights, DependOnTheSeedAndDifferFromOneAnother) {
  Bench a(test::small_transformer());
  Bench b(test::small_transformer());
  Bench c(test::small_transformer(), at::kDouble, 4);
  const Param first = a.weights.matrix("x", Role::linear, {8, 8});
  const Param second = a.weights.matrix("y", Role::linear, {8, 8});
  EXPECT_FALSE(first.tensor.equal(second.tensor));
  EXPECT_TRUE(b.weights.matrix("x", Role::linear, {8, 8}).tensor.equal(first.tensor));
  EXPECT_FALSE(c.weights.matrix("x", Role::linear, {8, 8}).tensor.equal(first.tensor));
  EXPECT_TRUE(first.tensor.requires_grad());
}

TEST(InitialWeights, AreNormalWhereNanogptIsMeant) {
  TransformerOptions options = test::small_transformer();
  options.initialization = Initialization::normal;
  Bench bench(options);
  const at::Tensor values = bench.weights.matrix("x", Role::query, {100, 100}).tensor;
  EXPECT_NEAR(values.std().item<double>(), 0.02, 0.001);
  const at::Tensor ends = bench.weights.matrix("y", Role::mlp_down, {100, 100}).tensor;
  EXPECT_NEAR(ends.std().item<double>(), 0.01, 0.0005);  // two blocks, four branches
}

TEST(InitialWeights, HaveSpectralNormOneWhereLipsformerIsMeant) {
  TransformerOptions options = test::small_transformer();
  options.initialization = Initialization::xavier_spectral;
  Bench bench(options);
  for (const auto& [role, out, in] : {std::tuple{Role::mlp_down, int64_t{20}, int64_t{80}},
                                      {Role::mlp_up, 80, 20},
                                      {Role::head, 50, 50},
                                      {Role::attention_output, 30, 30}}) {
    const at::Tensor values =
        bench.weights.matrix(role_name(role), role, {.out = out, .in = in}).tensor.detach();
    const at::Tensor singular = test::singular_values(values);
    EXPECT_NEAR(singular.max().item<double>(), 1.0, 1e-9);
    EXPECT_LT(singular.min().item<double>(), 0.5) << "a normal matrix, and no orthogonal one";
    EXPECT_NEAR(values.mean().item<double>() / values.std().item<double>(), 0.0, 0.1);
  }
}

TEST(GivenWeights, AreAskedForByNameAndShapeAndKept) {
  std::map<std::string, at::Tensor> given;
  const auto give = [&](const std::string& name, at::IntArrayRef shape) {
    return given[name] = at::full(shape, 0.5, at::kHalf);
  };
  const auto model = make_model_from(give, test::small_transformer());
  ASSERT_EQ(given.size(), model->params().size());
  for (const Param& param : model->params()) EXPECT_TRUE(param.tensor.is_same(given.at(param.name)));
  const auto none = [](const std::string& name, at::IntArrayRef) -> at::Tensor {
    throw InputError("test", "no " + name);
  };
  EXPECT_ERROR(make_model_from(none, test::small_transformer()), InputError, "no model.embed_tokens.weight");
}

TEST(GivenWeights, KeepAPositionBiasThatTrainingWouldBeginOtherwise) {
  TransformerOptions options = test::small_transformer();
  options.position_bias = true;
  options.position_bias_start = 5.0;
  const auto give = [](const std::string&, at::IntArrayRef shape) { return at::full(shape, 0.5, at::kHalf); };
  const auto model = make_model_from(give, options);
  for (const Param& param : model->params())
    if (param.role == Role::position_bias) {
      EXPECT_TRUE(param.tensor.eq(0.5).all().item<bool>()) << param.name;
    }
}

}  // namespace
}  // namespace bridle
