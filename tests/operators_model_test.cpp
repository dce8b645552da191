#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/randint.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>

#include "bridle/certificate_file.h"
#include "file_support.h"
#include "io/model_folder.h"
#include "nn_support.h"
#include "support.h"

namespace bridle {
namespace {

template <class Signature>
auto find(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Signature>();
}

Tensor forward_op(const Model& model, at::TensorList weights, const Tensor& inputs, const Pass& pass = {}) {
  using Signature =
      Tensor(const std::string&, at::TensorList, const Tensor&, at::ScalarType, bool, int64_t, double);
  return find<Signature>("bridle::model_forward")
      .call(config_of(model.options().value()).dump(), weights, inputs, pass.dtype, pass.training,
            static_cast<int64_t>(pass.dropout.seed), pass.window_share);
}

std::vector<Tensor> weights_of(const Model& model) {
  std::vector<Tensor> weights;
  for (const Param& param : model.params()) weights.push_back(param.tensor);
  return weights;
}

TEST(ModelOperators, ForwardIsTheModelsWithItsGradients) {
  const Tensor tokens = test::normal({3, 8}, 1, at::kFloat).abs().mul(2).clamp(0, 4).to(at::kLong);
  TransformerOptions dropping = test::small_transformer();
  dropping.dropout = 0.5;
  for (const ModelOptions& options : {ModelOptions(test::small_transformer()), ModelOptions(dropping),
                                      ModelOptions(MlpOptions{.layer_sizes = {8, 6, 3}})}) {
    const auto model = test::random_model(options);
    const Tensor inputs =
        model->shape().input == InputKind::tokens ? tokens : test::normal({5, 8}, 2, at::kFloat);
    Pass pass{.training = true, .dropout = {.seed = 9, .stream = Stream::dropout, .step = 0}};
    const Tensor expected = model->forward(inputs, pass);
    const auto weights = weights_of(*model);
    const Tensor logits =
        forward_op(*model, weights, inputs,
                   {.training = true, .dropout = {.seed = 9, .stream = Stream::dropout, .step = 0}});
    EXPECT_TRUE(logits.equal(expected));
    const auto own = torch::autograd::grad({logits.square().sum()}, weights);
    const auto twin = torch::autograd::grad({expected.square().sum()}, weights);
    for (size_t i = 0; i < own.size(); ++i) EXPECT_TRUE(own[i].equal(twin[i]));
  }
}

TEST(ModelOperators, FrozenWeightsStayFrozen) {
  const auto model = test::random_model(MlpOptions{.layer_sizes = {4, 6, 3}});
  const auto weights = weights_of(*model);
  const Tensor frozen = weights[0].detach();
  const Tensor logits =
      forward_op(*model, std::vector<Tensor>{frozen, weights[1]}, test::normal({2, 4}, 1, at::kFloat));
  EXPECT_FALSE(frozen.requires_grad());
  torch::autograd::backward({logits.sum()});
  EXPECT_FALSE(frozen.grad().defined());
  EXPECT_TRUE(weights[1].grad().defined());
}

TEST(ModelOperators, FoldersGoOutAndInAgain) {
  const test::TemporaryFolder folder;
  const auto model = test::random_model(test::small_transformer());
  const std::string config = config_of(model->options().value()).dump();
  const std::string path = std::filesystem::path(folder).string();
  const auto write =
      find<std::string(const std::string&, const std::string&, at::TensorList)>("bridle::write_model");
  EXPECT_EQ(write.call(path, config, weights_of(*model)).size(), 64U);
  using Read = std::tuple<std::string, std::vector<std::string>, std::vector<Tensor>, double>;
  const auto [text, names, weights, share] = find<Read(const std::string&)>("bridle::read_model").call(path);
  EXPECT_EQ(nlohmann::ordered_json::parse(text), config_of(model->options().value()));
  EXPECT_EQ(share, 1.0);
  ASSERT_EQ(names.size(), model->params().size());
  for (size_t i = 0; i < names.size(); ++i) {
    EXPECT_EQ(names[i], model->params()[i].name);
    EXPECT_TRUE(weights[i].equal(model->params()[i].tensor.detach()));
    EXPECT_FALSE(weights[i].requires_grad());
  }
  const auto certify_op =
      find<std::string(const std::string&, double, int64_t, const std::string&)>("bridle::certify");
  const std::string certificate = (folder / "certificate.json").string();
  const std::string stated = certify_op.call(path, 0.5, 1, certificate);
  EXPECT_EQ(certificate_text(read_certificate(certificate)), stated);
  const auto check_op =
      find<std::vector<std::string>(const std::string&, const std::string&)>("bridle::check");
  EXPECT_TRUE(check_op.call(certificate, path).empty());
  EXPECT_ANY_THROW(certify_op.call(path, -1.0, 0, ""));
  EXPECT_ANY_THROW(certify_op.call(path + "/none", 0.0, 0, ""));
}

TEST(ModelOperators, WhatDoesNotFitIsRefused) {
  const auto model = test::random_model(MlpOptions{.layer_sizes = {4, 6, 3}});
  auto weights = weights_of(*model);
  const Tensor inputs = test::normal({2, 4}, 1, at::kFloat);
  EXPECT_ANY_THROW(forward_op(*model, weights, inputs.narrow(1, 0, 3)));
  EXPECT_ANY_THROW(forward_op(*model, weights, inputs.to(at::kLong)));
  EXPECT_ANY_THROW(forward_op(*model, std::vector<Tensor>{weights[0]}, inputs));
  EXPECT_ANY_THROW(forward_op(*model, std::vector<Tensor>{weights[0], weights[1], weights[1]}, inputs));
  EXPECT_ANY_THROW(forward_op(*model, std::vector<Tensor>{weights[1], weights[0]}, inputs));
  EXPECT_ANY_THROW(forward_op(*model, std::vector<Tensor>{weights[0], weights[1].to(at::kLong)}, inputs));
  using Make =
      std::tuple<std::string, std::vector<std::string>, std::vector<Tensor>>(const std::string&, int64_t);
  EXPECT_ANY_THROW(find<Make>("bridle::make_model").call("{}", 0));
  const auto made =
      find<Make>("bridle::make_model").call(R"({"model_type": "bridle_mlp", "layer_sizes": [4, 6, 3]})", 1);
  EXPECT_TRUE(
      std::get<2>(made)[0].equal(make_model(MlpOptions{.layer_sizes = {4, 6, 3}}, 1)->params()[0].tensor));
}

}  // namespace
}  // namespace bridle
