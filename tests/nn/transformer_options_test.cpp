#include "nn/transformer_options.h"

#include <gtest/gtest.h>

#include <limits>

#include "bridle/error.h"
#include "file_support.h"

namespace bridle {
namespace {

TransformerOptions small() { return {.vocab_size = 5, .hidden_size = 16, .max_position_embeddings = 8}; }

TEST(TransformerOptions, AreFilledInWhereTheyAreZero) {
  TransformerOptions options = small();
  resolve_(options);
  EXPECT_EQ(options.real_vocab_size, 5);
  EXPECT_EQ(options.num_key_value_heads, 4);
  EXPECT_EQ(options.intermediate_size, 64);
  EXPECT_EQ(options.position_bias_offsets, 8);
  EXPECT_EQ(options.attention_alpha, 1.0 / 6.0);
  EXPECT_EQ(options.mlp_alpha, 1.0 / 6.0);
}

// Every key with a range refuses a number outside of it, by its name.
TEST(TransformerOptions, AreRefusedOutOfTheirRanges) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  TransformerOptions base = small();
  resolve_(base);
  int ranges = 0;
  for (size_t i = 0; i < transformer_settings(base).size(); ++i) {
    TransformerOptions options = base;
    const Setting setting = transformer_settings(options)[i];
    if (setting.range.holds == nullptr) continue;
    ++ranges;
    if (auto* const* whole = std::get_if<int64_t*>(&setting.place)) **whole = -1;
    if (auto* const* number = std::get_if<double*>(&setting.place)) **number = infinity;
    EXPECT_ERROR(resolve_(options), InputError, setting.key + " must be " + setting.range.words);
  }
  EXPECT_EQ(ranges, 28);
}

TEST(TransformerOptions, AreRefusedWhereTheyDoNotGoTogether) {
  const auto refused = [](const char* what, auto change) {
    TransformerOptions options = small();
    change(options);
    EXPECT_ERROR(resolve_(options), InputError, what);
  };
  refused("attention_window must be a multiple of window_block = 4, got 10", [](TransformerOptions& o) {
    o.attention_window = 10;
    o.window_block = 4;
  });
  refused("need an attention_window", [](TransformerOptions& o) { o.window_block = 4; });
  refused("need an attention_window", [](TransformerOptions& o) { o.long_window_layers = {0}; });
  refused("long_window_layers must be from 0 to num_hidden_layers - 1 = 2, got 3", [](TransformerOptions& o) {
    o.attention_window = 8;
    o.long_window_layers = {0, 3};
  });
  refused("rope_half_truncated needs", [](TransformerOptions& o) {
    o.rope_half_truncated = true;
    o.positions = PositionKind::none;
  });
  refused("rope_half_truncated needs", [](TransformerOptions& o) {
    o.rope_half_truncated = true;
    o.num_attention_heads = 8;
  });
  refused("content_heads must be 0 without mixing = quadrature, got 2",
          [](TransformerOptions& o) { o.content_heads = 2; });
  refused("content_size must be multiples of 32", [](TransformerOptions& o) {
    o.mixing = MixingKind::quadrature;
    o.positions = PositionKind::none;
    o.hidden_size = 32;
    o.content_heads = 1;
    o.content_size = 40;
  });
  refused("norm_after needs a norm", [](TransformerOptions& o) { o.norm_after = true; });
}

TEST(TransformerOptions, TakeBranchDropoutFromDropoutWhereItIsZero) {
  TransformerOptions options = small();
  options.dropout = 0.2;
  resolve_(options);
  EXPECT_EQ(options.branch_dropout, 0.2);
  options.branch_dropout = 0.5;
  resolve_(options);
  EXPECT_EQ(options.branch_dropout, 0.5);
}

TEST(TransformerOptions, AreAllKnownToTheFusedPassButNormsAfterResiduals) {
  TransformerOptions options = small();
  options.norm_after = true;
  EXPECT_EQ(unfused_key(options), "norm_after");
}

TEST(TransformerOptions, AreAllKnownToTheFusedPass) { EXPECT_EQ(unfused_key(small()), ""); }

}  // namespace
}  // namespace bridle
