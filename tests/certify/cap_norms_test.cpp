#include "certify/cap_norms.h"

#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include "bridle/constraint.h"
#include "bridle/error.h"
#include "file_support.h"
#include "nn_support.h"
#include "support.h"

namespace bridle {
namespace {

// A transformer whose weights fill their caps, keys and values head by head.
struct Capped {
  explicit Capped(const std::string& apart, int64_t kv_heads = 4)
      : model(make_model(options(kv_heads), 1)), params(model->params()) {
    const at::NoGradGuard no_gradients;
    uint64_t seed = 1;
    for (Param& param : params) {
      const bool key_or_value = param.role == Role::key || param.role == Role::value;
      if ((apart != "whole" && key_or_value) || (apart == "qkv" && param.role == Role::query))
        param.blocks = param.heads;
      caps.push_back(is_table(param.role) ? 1.0 : 0.7 + 0.1 * static_cast<double>(seed % 5));
      param.tensor.copy_(test::normal(param.tensor.sizes(), seed++).mul(3.0));
      seal_(param, caps.back());
    }
  }
  static TransformerOptions options(int64_t kv_heads) {
    TransformerOptions result = test::small_transformer();
    result.num_key_value_heads = kv_heads;
    result.softmax_scale = 3.0;
    return result;
  }
  std::unique_ptr<Model> model;
  std::vector<Param> params;
  std::vector<double> caps;
};

Bound walked(const Model& model, NormSource& norms) {
  Walk walk(norms);
  return model.bound(model.input_bound(norms), walk);
}

TEST(NormsOfCaps, HoldForHeadsThatShareKeysAndValues) {
  for (const int64_t kv_heads : {1, 2}) {
    for (const char* apart : {"whole", "kv", "qkv"}) {
      const Capped capped(apart, kv_heads);
      CapNorms caps(capped.params, capped.caps);
      const auto measured = measured_norms();
      const Bound promised = walked(*capped.model, caps), seen = walked(*capped.model, *measured);
      EXPECT_GE(promised.lipschitz, seen.lipschitz) << apart << " " << kv_heads;
      EXPECT_GE(promised.activation, seen.activation) << apart << " " << kv_heads;
    }
  }
}

TEST(NormsOfCaps, AreNeverBelowThoseOfWeightsInside) {
  for (const char* apart : {"whole", "kv", "qkv"}) {
    const Capped capped(apart);
    CapNorms caps(capped.params, capped.caps);
    const auto measured = measured_norms();
    EXPECT_GE(walked(*capped.model, caps).lipschitz, walked(*capped.model, *measured).lipschitz) << apart;
    EXPECT_GE(walked(*capped.model, caps).activation, walked(*capped.model, *measured).activation) << apart;
    for (const Param& param : capped.params) {
      if (!is_matrix(param.role)) continue;
      EXPECT_GE(caps.matrix(param), measured->matrix(param)) << param.name;
      EXPECT_GE(caps.largest_row_rms(param), measured->largest_row_rms(param)) << param.name;
      if (param.tensor.size(0) % 4 != 0) continue;
      const auto heads = measured->heads(param, 4);
      for (size_t h = 0; h < 4; ++h) EXPECT_GE(caps.heads(param, 4)[h], heads[h]) << param.name;
      const std::vector<UpperBound> scales{0.5, 2.0, 1.0, 0.25};
      EXPECT_GE(caps.scaled_heads(param, scales), measured->scaled_heads(param, scales)) << param.name;
    }
  }
}

TEST(NormsOfCaps, AreTheCapsThemselvesForSquareMatrices) {
  const Param weight{.name = "w", .tensor = test::normal({8, 8}, 1), .role = Role::query};
  const Param by_head{.name = "h", .tensor = weight.tensor, .role = Role::key, .blocks = 4};
  const std::vector<Param> params{weight, by_head};
  const std::vector<double> limits{1.5, 1.5};
  CapNorms caps(params, limits);
  EXPECT_NEAR(caps.matrix(weight).to_double(), 1.5, 1e-12);
  EXPECT_NEAR(caps.heads(weight, 4)[0].to_double(), 1.5, 1e-12);    // a head may hold all of it
  EXPECT_NEAR(caps.heads(by_head, 4)[0].to_double(), 0.75, 1e-12);  // 1.5·√(2/8)
  EXPECT_NEAR(caps.matrix(by_head).to_double(), 1.5, 1e-12);        // √4 of them
}

TEST(NormsOfCaps, AreRefusedWhereNothingCaps) {
  const Param gain{.name = "gain", .tensor = test::normal({8}, 1), .role = Role::gain};
  const std::vector<Param> params{gain};
  const std::vector<double> limits{0.0};
  CapNorms caps(params, limits);
  EXPECT_ERROR(caps.largest_entry(gain), PromiseError, "nothing caps gain");
  const Param free{.name = "bias", .tensor = test::normal({2, 8}, 1), .role = Role::position_bias};
  EXPECT_EQ(caps.largest_entry(free).to_double(), 0.0);
  const Param moves{.name = "logit_bias", .tensor = test::normal({8}, 1), .role = Role::logit_bias};
  EXPECT_EQ(caps.euclidean(moves).to_double(), 0.0);
}

}  // namespace
}  // namespace bridle
