#include "dist/watch.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "bridle/error.h"
#include "file_support.h"
#include "rank_support.h"

namespace bridle {
namespace {

using std::chrono::milliseconds;

class Watched : public testing::Test {
 protected:
  WatchOptions options(int64_t rank, int64_t size, milliseconds timeout = milliseconds(5000)) const {
    return {.rank = rank,
            .size = size,
            .rendezvous = "file:" + (folder_ / "place").string(),
            .timeout = timeout,
            .version = "1",
            .facts = rank == 0 ? "told" : ""};
  }

 private:
  test::TemporaryFolder folder_;
};

TEST_F(Watched, MeetAndLeaveTogether) {
  const auto errors = test::errors_of_ranks(4, [this](int64_t rank) {
    Watch watch(options(rank, 4));
    EXPECT_EQ(watch.facts(), "told");
    EXPECT_FALSE(watch.own_address().empty());
    watch.leave();
    EXPECT_FALSE(watch.failure());
  });
  EXPECT_EQ(errors, std::vector<std::string>(4));
}

// Its thread ends without a word: the process was killed.
TEST_F(Watched, SayWhichRankWasLost) {
  for (const int64_t lost : {0, 1, 2}) {
    std::vector<std::string> seen(3);
    test::errors_of_ranks(3, [&](int64_t rank) {
      Watch watch(options(rank, 3));
      if (rank == lost) return;
      watch.leave();
      seen[static_cast<size_t>(rank)] = watch.failure().value_or("");
    });
    for (int64_t rank = 0; rank < 3; ++rank) {
      if (rank == lost) continue;
      EXPECT_EQ(seen[static_cast<size_t>(rank)],
                "rank " + std::to_string(lost) +
                    " of 3 was lost: its process was killed or ended, or its machine went down");
    }
  }
}

TEST_F(Watched, LearnWhyOneGivesUp) {
  for (const int64_t failing : {0, 2}) {
    std::vector<std::string> seen(3);
    std::atomic<int> called{0};
    test::errors_of_ranks(3, [&](int64_t rank) {
      WatchOptions own = options(rank, 3);
      own.on_failure = [&called] { ++called; };
      Watch watch(own);
      if (rank == failing) watch.fail("[write] disk: No space left on device");
      watch.leave();
      std::this_thread::sleep_for(milliseconds(100));
      seen[static_cast<size_t>(rank)] = watch.verdict("a guess");
    });
    for (const std::string& text : seen)
      EXPECT_EQ(text, "rank " + std::to_string(failing) + " of 3: [write] disk: No space left on device");
    EXPECT_GE(called, 2);  // on all that did not know it
  }
}

// One that connects and then says nothing: it is stopped.
TEST_F(Watched, SayWhichRankIsSilent) {
  Descriptor listener = listen_at({"127.0.0.1", 0});
  WatchOptions own = options(0, 2, milliseconds(300));
  own.rendezvous =
      "descriptor:" + std::to_string(dup(listener.number())) + ":" + std::to_string(port_of(listener));
  auto silent = connect_to({"127.0.0.1", port_of(listener)}, milliseconds(1000));
  ASSERT_TRUE(silent && silent->send("hello - 1 2 1"));
  Watch watch(own);
  watch.leave();
  EXPECT_EQ(watch.failure(),
            "rank 1 of 2 has not been heard for 0.3 s: it is stopped, or the network to it is down");
}

TEST_F(Watched, SayWhoDoesNotCome) {
  const auto errors =
      test::errors_of_ranks(2, [this](int64_t rank) { Watch watch(options(rank, 3, milliseconds(300))); });
  for (const std::string& error : errors)
    EXPECT_NE(error.find("rank 2 of 3 has not come"), std::string::npos) << error;
}

TEST_F(Watched, SayThatNobodyLeads) {
  EXPECT_ERROR(Watch(options(1, 2, milliseconds(200))), RankError, "rank 0 of 2 has not answered");
}

TEST_F(Watched, RefuseOtherVersionsAndNumbers) {
  const auto meet = [this](const std::function<void(WatchOptions&)>& change, const std::string& expected) {
    const auto errors = test::errors_of_ranks(2, [&](int64_t rank) {
      WatchOptions own = options(rank, 2);
      if (rank == 1) change(own);
      Watch watch(own);
    });
    for (const std::string& error : errors) EXPECT_NE(error.find(expected), std::string::npos) << error;
  };
  meet([](WatchOptions& own) { own.version = std::string("2"); },
       "rank 1 of 2 runs Bridle 2 and rank 0 runs 1");
  meet([](WatchOptions& own) { own.size = 3; }, "rank 1 says that it is one of 3");
  const auto twice =
      test::errors_of_ranks(3, [this](int64_t rank) { Watch watch(options(rank > 0 ? 1 : 0, 3)); });
  EXPECT_NE(twice[0].find("two processes say that they are rank 1 of 3"), std::string::npos) << twice[0];
}

}  // namespace
}  // namespace bridle
