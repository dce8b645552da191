// A thousand networks with quadrature mixing: what a search finds never exceeds the bound, and would exceed it if the bound were
// computed with any of the mistakes that lie near.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>

#include "trunk_support.h"

namespace bridle {
namespace {

using test::TrunkMistake;

constexpr int kNetworks = 1000;
constexpr int kShards = 11;         // CTest runs them side by side; each meets every kind
constexpr double kRounding = 1e-9;  // of a small difference in float64, where a bound is reached

double bound_of(const test::Network& network) {
  const auto norms = measured_norms();
  Walk walk(*norms);
  return network.model->bound(network.domain, walk).lipschitz.to_double();
}

class AThousandTrunks : public testing::TestWithParam<int> {};

TEST_P(AThousandTrunks, AreNeverStretchedMoreThanTheirBoundWhichATwinComputesToo) {
  std::map<std::string, double> closest;
  for (int i = GetParam(); i < kNetworks; i += kShards) {
    const test::Network network = test::trunk_network(i);
    const double bound = bound_of(network);
    EXPECT_NEAR(test::twin_bound(network, TrunkMistake::none), bound, 1e-6 * bound)
        << "network " << i << ", " << network.kind;
    const double observed = test::observed_lipschitz(network, /*rounds=*/12);
    EXPECT_LE(observed, bound * (1.0 + kRounding)) << "network " << i << ", " << network.kind;
    closest[network.kind] = std::max(closest[network.kind], observed / bound);
  }
  for (const auto& [kind, share] : closest) RecordProperty(kind, fmt::format("{:.6f}", share));
  // A search that finds nothing would prove nothing: these come close to their bounds.
  for (const char* kind : {"aligned", "different_tokens"}) EXPECT_GT(closest[kind], 0.95) << kind;
  EXPECT_GT(closest["memory"], 0.5);
  EXPECT_GT(closest["feed_forward"], 0.7);
  EXPECT_GT(closest["content"], 0.5);
}

INSTANTIATE_TEST_SUITE_P(Shard, AThousandTrunks, testing::Range(0, kShards));

// Passes at the first of the networks that is stretched more than the wrong bound allows: the test above would fail.
void expect_seen(TrunkMistake mistake) {
  for (int i = 0; i < kNetworks; ++i) {
    const test::Network network = test::trunk_network(i);
    const double right = test::twin_bound(network, TrunkMistake::none);
    const double wrong = test::twin_bound(network, mistake);
    if (wrong > (1.0 - 1e-6) * right) continue;  // makes no difference here
    const double observed = test::observed_lipschitz(network);
    if (observed <= wrong * (1.0 + 1e-7)) continue;
    EXPECT_LE(observed, right * (1.0 + kRounding));
    testing::Test::RecordProperty(
        "seen", fmt::format("network {} ({}): wrong {:.7f}, observed {:.7f}, right {:.7f}", i, network.kind,
                            wrong, observed, right));
    return;
  }
  FAIL() << "no network is stretched more than the wrong bound allows";
}

TEST(TrunkStretch, ShowsThatNormsOfBlocksDoNotBoundTheMixture) { expect_seen(TrunkMistake::block_norms); }

TEST(TrunkStretch, ShowsThatCoefficientsCount) { expect_seen(TrunkMistake::no_coefficients); }

TEST(TrunkStretch, ShowsThatCoefficientsAddUpInQuadrature) { expect_seen(TrunkMistake::largest_weight); }

TEST(TrunkStretch, ShowsThatEveryChannelOfTheMemoryCounts) { expect_seen(TrunkMistake::spectral_memory); }

TEST(TrunkStretch, ShowsThatTheMemorysRowsCount) { expect_seen(TrunkMistake::no_memory); }

TEST(TrunkStretch, ShowsThatSkipAndBranchAddUpInTheFeedForwardLayersLastMatrix) {
  expect_seen(TrunkMistake::feed_forward_blocks);
}

TEST(TrunkStretch, ShowsThatTheLengthOfWhatTheActivationGivesCounts) {
  expect_seen(TrunkMistake::feed_forward_length);
}
TEST(TrunkStretch, ShowsThatQueriesAndKeysCount) { expect_seen(TrunkMistake::free_content); }

TEST(TrunkStretch, ShowsThatKeysCount) { expect_seen(TrunkMistake::free_keys); }

TEST(TrunkStretch, ShowsThatTokensCountTwice) { expect_seen(TrunkMistake::short_tokens); }

}  // namespace
}  // namespace bridle
