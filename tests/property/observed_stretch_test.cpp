// A thousand networks: what a search finds never exceeds the bound, and would exceed it if the bound were computed with
// any of the known mistakes.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>

#include "bridle/nn.h"
#include "certify_support.h"

namespace bridle {
namespace {

using test::Mistake;

constexpr int kNetworks = 1000;
constexpr int kShards = 10;         // CTest runs them side by side
constexpr double kRounding = 1e-9;  // of a small difference in float64, where a bound is reached

double bound_of(const test::Network& network) {
  const auto norms = measured_norms();
  Walk walk(*norms);
  return network.model->bound(network.domain, walk).lipschitz.to_double();
}

class AThousandNetworks : public testing::TestWithParam<int> {};

TEST_P(AThousandNetworks, AreNeverStretchedMoreThanTheirBound) {
  std::map<std::string, double> closest;
  for (int i = GetParam(); i < kNetworks; i += kShards) {
    const test::Network network = test::network(i);
    const double bound = bound_of(network);
    const double observed = test::observed_lipschitz(network);
    EXPECT_LE(observed, bound * (1.0 + kRounding)) << "network " << i << ", " << network.kind;
    closest[network.kind] = std::max(closest[network.kind], observed / bound);
  }
  for (const auto& [kind, share] : closest) RecordProperty(kind, fmt::format("{:.6f}", share));
  // A search that finds nothing would prove nothing: these come close to their bounds.
  for (const char* kind : {"one_head", "different_tokens", "neuron", "growth", "content"})
    EXPECT_GT(closest[kind], 0.85) << kind;
}

TEST_P(AThousandNetworks, HaveTheBoundThatATwinComputes) {
  for (int i = GetParam(); i < kNetworks; i += kShards) {
    const test::Network network = test::network(i);
    const double bound = bound_of(network);
    EXPECT_NEAR(test::twin_bound(network, Mistake::none), bound, 1e-6 * bound)
        << "network " << i << ", " << network.kind;
  }
}

INSTANTIATE_TEST_SUITE_P(Shard, AThousandNetworks, testing::Range(0, kShards));

// Passes at the first of the networks that is stretched more than the wrong bound allows: the test above would fail.
void expect_seen(Mistake mistake) {
  for (int i = 0; i < kNetworks; ++i) {
    const test::Network network = test::network(i);
    const double right = test::twin_bound(network, Mistake::none);
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

TEST(ObservedStretch, ShowsThatNormsOfWholeMatricesDoNotBoundSeveralHeads) {
  expect_seen(Mistake::whole_norms);
}

TEST(ObservedStretch, ShowsThatGelusSlopeIsNotOne) { expect_seen(Mistake::no_kappa); }

TEST(ObservedStretch, ShowsThatGelusSlopeIsNotItsDivisor) { expect_seen(Mistake::rounded_kappa); }

TEST(ObservedStretch, ShowsThatActivationsHaveToBeFollowedThroughTheBlocks) {
  expect_seen(Mistake::fixed_activation);
}

TEST(ObservedStretch, ShowsThatTheSoftmaxScaleCounts) { expect_seen(Mistake::no_softmax_scale); }

TEST(ObservedStretch, ShowsThatGelusDivisorCountsOnce) { expect_seen(Mistake::divided_twice); }

}  // namespace
}  // namespace bridle
