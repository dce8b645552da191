#include "dist/gather.h"

#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include "rank_support.h"

namespace bridle {
namespace {

TEST(Gather, BringsNumbersInTheOrderOfTheRanks) {
  test::as_ranks(3, [](const std::shared_ptr<Ranks>& ranks) {
    const std::vector<int64_t> counts{1, 0, 2};
    const auto rank = static_cast<double>(ranks->rank());
    const std::vector<double> own(static_cast<size_t>(counts[static_cast<size_t>(ranks->rank())]),
                                  0.1 + rank);
    for (int round = 0; round < 3; ++round)
      EXPECT_EQ(gather_numbers(*ranks, own, counts), (std::vector<double>{0.1, 2.1, 2.1}));
  });
}

TEST(Gather, BringsTextsOfAnyLength) {
  test::as_ranks(3, [](const std::shared_ptr<Ranks>& ranks) {
    const auto length = static_cast<size_t>(100000 * ranks->rank());
    const auto texts = gather_texts(*ranks, std::string(length, 'x'));
    ASSERT_EQ(texts.size(), 3U);
    for (size_t r = 0; r < 3; ++r) EXPECT_EQ(texts[r], std::string(100000 * r, 'x'));
    EXPECT_EQ(text_from(*ranks, 1, {"a", "b", "c"}), std::string(1, static_cast<char>('a' + ranks->rank())));
  });
}

TEST(Gather, KeepsTensorsAsTheyAre) {
  const std::map<std::string, at::Tensor> tensors{{"a", at::tensor({1.5F, -0.0F}).reshape({2, 1})},
                                                  {"b", at::tensor({int64_t{7}})},
                                                  {"c", at::tensor(std::vector<double>{}, at::kDouble)}};
  const auto back = tensors_from_text(tensors_to_text(tensors));
  ASSERT_EQ(back.size(), 3U);
  for (const auto& [name, tensor] : tensors) {
    EXPECT_TRUE(back.at(name).equal(tensor)) << name;
    EXPECT_EQ(back.at(name).scalar_type(), tensor.scalar_type()) << name;
  }
}

}  // namespace
}  // namespace bridle
