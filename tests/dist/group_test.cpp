#include "dist/group.h"

#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "rank_support.h"

namespace bridle {
namespace {

constexpr std::chrono::seconds kTimeout{20};

TEST(GlooGroup, CarriesBytesAndIsAborted) {
  ASSERT_EQ(why_no_group(), "");
  const auto server = serve_group_store(kTimeout);
  const auto errors = test::errors_of_ranks(2, [&](int64_t rank) {
    const auto store = open_group_store("127.0.0.1", server->port(), kTimeout);
    const auto group =
        make_gloo_group(*store, {.rank = rank, .size = 2, .address = "127.0.0.1", .timeout = kTimeout});
    const at::Tensor own = at::full({100000}, rank + 1, at::kByte), others = at::zeros({100000}, at::kByte);
    const auto received = group->receive(others, 1 - rank, 7), sent = group->send(own, 1 - rank, 7);
    EXPECT_TRUE(received->wait() && sent->wait());
    EXPECT_EQ(received->other(), 1 - rank);
    EXPECT_TRUE(others.eq(2 - rank).all().item<bool>());
    // Nothing comes any more: another thread ends the wait.
    const auto never = group->receive(others, 1 - rank, 8);
    const std::jthread aborting([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      never->abort();
    });
    EXPECT_FALSE(never->wait());
    const auto last = group->receive(others, 1 - rank, 9), told = group->send(own, 1 - rank, 9);
    EXPECT_TRUE(last->wait() && told->wait());  // neither closes before both are here
  });
  EXPECT_EQ(errors, std::vector<std::string>(2));
}

}  // namespace
}  // namespace bridle
