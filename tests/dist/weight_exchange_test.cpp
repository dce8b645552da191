#include "dist/weight_exchange.h"

#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "file_support.h"
#include "rank_support.h"
#include "support.h"

namespace bridle {
namespace {

using Gradients = WeightExchange::Gradients;

std::vector<at::Tensor> weights() {
  return {at::zeros({3, 5}), at::zeros({7}), at::zeros({2, 2}, at::kDouble)};
}

// Numbers whose sum depends on the order.
Gradients gradients_of(int64_t slice) {
  Gradients gradients;
  for (const at::Tensor& weight : weights())
    gradients.push_back(
        test::normal(weight.sizes(), static_cast<uint64_t>(100 + slice), weight.scalar_type()).pow(5));
  return gradients;
}

Gradients sum_of(const SliceRange& node) {
  return sum_in_tree<Gradients>(
      node,
      [](const SliceRange& part) -> std::optional<Gradients> {
        if (part.count > 1) return std::nullopt;
        return gradients_of(part.first);
      },
      [](Gradients& sum, const Gradients& more) {
        for (size_t i = 0; i < sum.size(); ++i) sum[i].add_(more[i]);
      });
}

WeightExchange exchange_of(const std::shared_ptr<Ranks>& ranks, int64_t slices) {
  const std::vector<int64_t> owners{0, ranks->size() - 1, ranks->size() / 2};
  return WeightExchange({.ranks = ranks, .weights = weights(), .owners = owners, .slices = slices});
}

TEST(WeightExchange, SumsAtOwnersAsOneProcessDoes) {
  for (const auto& [size, slices] : {std::pair<int64_t, int64_t>{2, 4}, {2, 5}, {4, 8}, {3, 6}}) {
    const Gradients whole = sum_of({0, slices});
    test::as_ranks(size, [&, count = slices](const std::shared_ptr<Ranks>& ranks) {
      WeightExchange exchange = exchange_of(ranks, count);
      for (int round = 0; round < 2; ++round) {
        std::vector<Gradients> nodes;
        for (const SliceRange& node : nodes_of(count, slices_of(count, ranks->rank(), ranks->size())))
          nodes.push_back(sum_of(node));
        const Gradients total = exchange.sum_at_owners(std::move(nodes));
        for (size_t i = 0; i < whole.size(); ++i) {
          EXPECT_EQ(total[i].defined(), exchange.owner(i) == ranks->rank());
          if (!total[i].defined()) continue;
          EXPECT_TRUE(total[i].equal(whole[i])) << i;
        }
      }
    });
  }
}

TEST(WeightExchange, GivesEveryRankTheWeightsOfTheirOwners) {
  test::as_ranks(3, [](const std::shared_ptr<Ranks>& ranks) {
    const std::vector<at::Tensor> own = weights();
    const std::vector<int64_t> owners{2, 0, 2};
    WeightExchange exchange({.ranks = ranks, .weights = own, .owners = owners, .slices = 3});
    for (size_t i = 0; i < own.size(); ++i) own[i].fill_(static_cast<double>(10 * ranks->rank()) + 1.0);
    EXPECT_THROW(exchange.check_weights(), RankError);
    exchange.share_weights_();
    EXPECT_TRUE(own[0].eq(21.0).all().item<bool>());
    EXPECT_TRUE(own[1].eq(1.0).all().item<bool>());
    EXPECT_TRUE(own[2].eq(21.0).all().item<bool>());
    exchange.check_weights();
  });
}

TEST(WeightExchange, CompletesNumbersOfWeights) {
  test::as_ranks(2, [](const std::shared_ptr<Ranks>& ranks) {
    WeightExchange exchange = exchange_of(ranks, 2);
    const OwnedWeights owned = exchange.owned();
    std::vector<double> numbers(3);
    for (size_t i = 0; i < 3; ++i)
      if (owned.owns(i)) numbers[i] = static_cast<double>(i) + 0.5;
    owned.complete_(numbers);
    EXPECT_EQ(numbers, (std::vector<double>{0.5, 1.5, 2.5}));
    EXPECT_TRUE(exchange.any(ranks->rank() == 1));
    EXPECT_FALSE(exchange.any(false));
    EXPECT_EQ(exchange.numbers_of_all(std::vector<double>{static_cast<double>(ranks->rank())}, 1),
              (std::vector<double>{0.0, 1.0}));
  });
}

TEST(WeightExchange, LeavesAllAsItIsAlone) {
  WeightExchange exchange;
  const Gradients one = gradients_of(0);
  EXPECT_TRUE(exchange.sum_at_owners({one})[1].is_same(one[1]));
  exchange.share_weights_();
  exchange.check_weights();
  EXPECT_TRUE(exchange.owned().owns(2));
}

}  // namespace
}  // namespace bridle
