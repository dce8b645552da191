#include <gtest/gtest.h>

#include <cmath>

#include "bridle/error.h"
#include "bridle/optim.h"
#include "file_support.h"

namespace bridle {
namespace {

// Embedding, three blocks of q, k, v, o, up, down, head: shares do not look at tensors.
std::vector<Param> three_blocks() {
  std::vector<Param> params = {{.name = "embedding",
                                .role = Role::embedding,
                                .attention_residuals_after = 3,
                                .mlp_residuals_after = 3}};
  for (int64_t block = 0; block < 3; ++block) {
    for (const Role role : {Role::query, Role::key, Role::value, Role::attention_output}) {
      params.push_back({.name = role_name(role),
                        .role = role,
                        .attention_residuals_after = 2 - block,
                        .mlp_residuals_after = 3 - block});
    }
    for (const Role role : {Role::mlp_up, Role::mlp_down}) {
      params.push_back({.name = role_name(role),
                        .role = role,
                        .attention_residuals_after = 2 - block,
                        .mlp_residuals_after = 2 - block});
    }
  }
  params.push_back({.name = "head", .role = Role::head});
  return params;
}

// By what the shares of one sensitivity are divided: the embedding, then attention and MLP of each block.
struct Divisors {
  ResidualSensitivity sensitivity;
  double embedding;
  double attention[3];
  double mlp[3];
};

TEST(LearningRateShares, OfThreeBlocksAreTheOnesWorkedOutByHand) {
  const auto params = three_blocks();
  for (const Divisors& by :
       {Divisors{ResidualSensitivity::one, 1, {1, 1, 1}, {1, 1, 1}},     //
        Divisors{ResidualSensitivity::two, 64, {32, 8, 2}, {16, 4, 1}},  // 2⁶; 2⁵, 2³, 2; 2⁴, 2², 1
        Divisors{ResidualSensitivity::literal, 512, {128, 16, 2}, {64, 8, 1}}}) {  // 4³2³; 4²2³, 4·2², 2; …
    const auto shares = learning_rate_shares(params, {.residual_sensitivity = by.sensitivity});
    const double block_share = 8.0 / 153.0;  // 32/18 of 34
    EXPECT_DOUBLE_EQ(shares.front(), 1.0 / 34.0 / by.embedding) << word(by.sensitivity);
    EXPECT_DOUBLE_EQ(shares.back(), 1.0 / 34.0) << word(by.sensitivity);
    for (size_t block = 0; block < 3; ++block) {
      for (size_t i = 0; i < 6; ++i) {
        EXPECT_DOUBLE_EQ(shares[1 + 6 * block + i],
                         block_share / (i < 4 ? by.attention[block] : by.mlp[block]))
            << word(by.sensitivity) << " block " << block << " weight " << i;
      }
    }
  }
}

TEST(LearningRateShares, GroupsHaveTheirMassesAndWeightsTheirPartOfThem) {
  const std::vector<Param> params = {{.name = "e", .role = Role::embedding},
                                     {.name = "f", .role = Role::embedding},
                                     {.name = "up", .role = Role::mlp_up, .mass = 1.0},
                                     {.name = "down", .role = Role::mlp_down, .mass = 3.0},
                                     {.name = "extra", .role = Role::linear, .mass = 2.0},
                                     {.name = "head", .role = Role::head, .mass = 7.0}};
  const auto shares =
      learning_rate_shares(params, {.blocks_mass = 8.0, .embedding_mass = 2.0, .head_mass = 4.0});
  const std::vector<double> expected = {1.0 / 16, 1.0 / 16, 2.0 / 16, 6.0 / 16, 2.0 / 16, 4.0 / 16};
  EXPECT_EQ(shares, expected);
}

TEST(LearningRateShares, ThreeLayersOfAnMlpGetAThirdEach) {
  const std::vector<Param> params = {{.name = "a"}, {.name = "b"}, {.name = "c", .role = Role::head}};
  EXPECT_EQ(learning_rate_shares(params), std::vector<double>(3, 1.0 / 3.0));
  // The groups' masses are for transformers.
  EXPECT_EQ(learning_rate_shares(params, {.head_mass = 5.0}), std::vector<double>(3, 1.0 / 3.0));
}

TEST(LearningRateShares, WhatHasNoMassHasShareOne) {
  const std::vector<Param> params = {{.name = "w"},
                                     {.name = "b", .role = Role::bias, .attention_residuals_after = 5},
                                     {.name = "g", .role = Role::gain, .mass = 0.0},
                                     {.name = "m", .role = Role::position_bias},
                                     {.name = "p", .role = Role::position_embedding}};
  EXPECT_EQ(learning_rate_shares(params), std::vector<double>(5, 1.0));
  EXPECT_EQ(learning_rate_shares(std::span(params).subspan(1)), std::vector<double>(4, 1.0));
}

TEST(LearningRateShares, AreAllOneWhereMassIsNotUsed) {
  const auto params = three_blocks();
  EXPECT_EQ(learning_rate_shares(params, {.use = false, .residual_sensitivity = ResidualSensitivity::two}),
            std::vector<double>(params.size(), 1.0));
}

TEST(LearningRateShares, RefusesMassesThatMakeNoSense) {
  const auto share_of = [](const Param& param, const MassOptions& options = {}) {
    return learning_rate_shares(std::span(&param, 1), options);
  };
  EXPECT_ERROR(share_of({.name = "w", .mass = 0.0}), InputError,
               "the mass of w must be positive and finite, got 0");
  EXPECT_THROW(share_of({.name = "w", .mass = INFINITY}), InputError);
  EXPECT_THROW(share_of({.name = "w", .mlp_residuals_after = -1}), InputError);
  EXPECT_THROW(share_of({.name = "w", .role = Role::key}, {.blocks_mass = -1.0}), InputError);
  EXPECT_THROW(share_of({.name = "w", .role = Role::key}, {.blocks_mass = 0.0}), InputError);
}

}  // namespace
}  // namespace bridle
