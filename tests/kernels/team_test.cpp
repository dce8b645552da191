#include "kernels/team.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>

namespace bridle {
namespace {

TEST(Team, DoesEveryItemOnce) {
  for (const int threads : {1, 2, 5}) {
    std::vector<std::atomic<int>> done(100);
    Team(threads).each(100, [&](int64_t i, int member) {
      ASSERT_LT(member, threads);
      ++done[static_cast<size_t>(i)];
    });
    for (const auto& count : done) EXPECT_EQ(count, 1);
  }
}

TEST(Team, RunsTheTasksOfASlotInTheirOrder) {
  for (const int threads : {1, 2, 4}) {
    for (const int64_t count : {1, 3, 4, 5, 41}) {
      std::vector<std::vector<int64_t>> order(4);
      std::atomic<int> clashes = 0;
      std::vector<std::atomic<int>> inside(4);
      run_in_slots(Team(threads), count, 4, [&](int64_t task, int64_t slot, int) {
        const auto s = static_cast<size_t>(slot);
        if (++inside[s] != 1) ++clashes;
        order[s].push_back(task);
        --inside[s];
      });
      EXPECT_EQ(clashes, 0);
      size_t all = 0;
      for (size_t slot = 0; slot < 4; ++slot) {
        for (size_t i = 0; i < order[slot].size(); ++i)
          EXPECT_EQ(order[slot][i], static_cast<int64_t>(slot + 4 * i));
        all += order[slot].size();
      }
      EXPECT_EQ(all, static_cast<size_t>(count));
    }
  }
}

TEST(Team, WorksOnTensorsApartWithoutGradientsAndPassesOnWhatFails) {
  const int before = at::get_num_threads();
  at::set_num_threads(3);
  for (const std::vector<int64_t>& sizes :
       {std::vector<int64_t>{1, 1, 1, 1, 1}, std::vector<int64_t>{100, 1, 1}}) {
    std::vector<std::atomic<int>> done(sizes.size());
    each_apart(sizes, [&](size_t i) {
      EXPECT_FALSE(at::GradMode::is_enabled());
      ++done[i];
    });
    for (const auto& count : done) EXPECT_EQ(count, 1);
    EXPECT_THROW(each_apart(sizes,
                            [](size_t i) {
                              if (i == 1) throw std::runtime_error("one");
                            }),
                 std::runtime_error);
  }
  EXPECT_NO_THROW(each_apart({}, [](size_t) {}));
  at::set_num_threads(before);
}

}  // namespace
}  // namespace bridle
