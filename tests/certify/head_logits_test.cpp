#include "bridle/head_logits.h"

#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <cmath>

#include "export_support.h"
#include "support.h"

namespace bridle {
namespace {

// Queries and keys of tokens in the domain, straight from the weights of the first layer.
TEST(HeadLogits, AreNeverExceededAndReachedByAFirstLayerWithoutNorms) {
  const at::NoGradGuard no_gradients;
  const TransformerOptions options{.vocab_size = 20,
                                   .hidden_size = 8,
                                   .num_hidden_layers = 1,
                                   .num_attention_heads = 4,
                                   .num_key_value_heads = 2,
                                   .max_position_embeddings = 4,
                                   .softmax_scale = 3.0,
                                   .bias = true};
  const auto model = test::trained_like(options);
  const CertifiedBound bound = certify(*model);
  const auto heads = head_logits(*model, bound);
  ASSERT_EQ(heads.size(), 4U);
  const auto weight = [&](const std::string& name) {
    for (const Param& param : model->params())
      if (param.name == "model.layers.0.self_attn." + name) return param.tensor.detach().to(at::kDouble);
    throw std::logic_error(name);
  };
  const at::Tensor x = test::normal({20000, 8}, 1);
  const at::Tensor tokens = x.div(x.square().mean(1, true).sqrt()).mul(bound.domain_radius);
  for (const HeadLogit& head : heads) {
    const int64_t own = head.head / 2;
    const auto longest = [&](const std::string& part, int64_t block) {
      const at::Tensor y = tokens.matmul(weight(part + ".weight").narrow(0, 2 * block, 2).t())
                               .add(weight(part + ".bias").narrow(0, 2 * block, 2));
      return y.square().sum(1).sqrt().max().item<double>();
    };
    const double query = longest("q_proj", head.head), key = longest("k_proj", own);
    EXPECT_LE(query, head.query.value);
    EXPECT_LE(key, head.key.value);
    EXPECT_GT(query, 0.6 * head.query.value);
    EXPECT_GT(key, 0.6 * head.key.value);
    EXPECT_NEAR(head.logit.value, 1.5 * head.query.value * head.key.value, 1e-9 * head.logit.value);
  }
}

TEST(HeadLogits, AreOnePerHeadAndLayerOfModelsWithAttention) {
  for (const test::NamedModel& own : test::exported_transformers()) {
    const auto model = test::trained_like(own.options);
    const auto& options = std::get<TransformerOptions>(own.options);
    const auto heads = head_logits(*model, certify(*model));
    EXPECT_EQ(heads.size(), options.mixing == MixingKind::attention ? 8U : 0U) << own.name;
    for (const HeadLogit& head : heads) EXPECT_GT(head.logit.log10, -300.0) << own.name;
    if (!options.qk_norm) continue;
    for (const HeadLogit& head : heads) EXPECT_LE(head.logit.value, 3.0 * (1.0 + 1e-9));  // s·√d_h·√d_h/d_h
  }
  const auto mlp = test::trained_like(test::exported_mlps().front().options);
  EXPECT_TRUE(head_logits(*mlp, certify(*mlp)).empty());
}

}  // namespace
}  // namespace bridle
