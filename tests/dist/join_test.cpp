#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <thread>

#include "bridle/ranks.h"
#include "file_support.h"
#include "rank_support.h"

namespace bridle {
namespace {

TEST(JoinedRanks, ExchangeBytesOfAnySize) {
  test::as_ranks(4, [](const std::shared_ptr<Ranks>& ranks) {
    for (const int64_t bytes : {1, 5000, 3000000}) {
      std::vector<at::Tensor> to, from;
      for (int64_t other = 0; other < 4; ++other) {
        to.push_back(at::full({bytes + other}, 10 * ranks->rank() + other, at::kByte));
        from.push_back(at::zeros({bytes + ranks->rank()}, at::kByte));
      }
      to[3] = at::Tensor();  // nobody sends to the last
      if (ranks->rank() == 3) from.assign(4, at::Tensor());
      ranks->exchange(to, from);
      for (int64_t other = 0; other < 4 && ranks->rank() != 3; ++other) {
        if (other == ranks->rank()) continue;
        EXPECT_TRUE(from[static_cast<size_t>(other)].eq(10 * other + ranks->rank()).all().item<bool>());
      }
    }
  });
}

TEST(JoinedRanks, AllEndWhenOneFails) {
  const test::TemporaryFolder folder;
  const auto errors = test::errors_of_ranks(3, [&](int64_t rank) {
    const auto ranks =
        join_ranks({.rank = rank, .size = 3, .rendezvous = "file:" + (folder / "place").string()});
    if (rank == 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      ranks->fail("[write] x: No space left on device");
    }
    std::vector<at::Tensor> bytes(3, at::zeros({10}, at::kByte));
    ranks->exchange(bytes, bytes);
  });
  for (const std::string& error : errors)
    EXPECT_EQ(error, "[ranks] rank 1 of 3: [write] x: No space left on device");
}

TEST(JoinedRanks, AllEndWhenOneIsGone) {
  const test::TemporaryFolder folder;
  const auto errors = test::errors_of_ranks(3, [&](int64_t rank) {
    const auto ranks =
        join_ranks({.rank = rank, .size = 3, .rendezvous = "file:" + (folder / "place").string()});
    if (rank == 2) return;
    std::vector<at::Tensor> bytes(3, at::zeros({10}, at::kByte));
    ranks->exchange(bytes, bytes);
  });
  for (const int64_t rank : {0, 1})
    EXPECT_NE(errors[static_cast<size_t>(rank)].find("[ranks] rank 2 of 3 was lost"), std::string::npos)
        << errors[static_cast<size_t>(rank)];
}

TEST(JoinedRanks, RefuseNumbersThatMakeNoSense) {
  EXPECT_ERROR(join_ranks({.rank = 2, .size = 2}), InputError, "rank 2 of 2");
  EXPECT_ERROR(join_ranks({.rank = 0, .size = 2, .rendezvous = "nowhere"}), InputError,
               "--rendezvous must be");
  EXPECT_EQ(join_ranks({})->size(), 1);
}

}  // namespace
}  // namespace bridle
