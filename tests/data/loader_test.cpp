#include "bridle/loader.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "bridle/error.h"
#include "data/token_source.h"
#include "data_support.h"

namespace bridle {
namespace {

using test::counting;
using test::TemporaryFolder;
using test::write_shards;

std::shared_ptr<const Source> text_of(size_t tokens, int64_t sequence_length) {
  const TemporaryFolder folder;  // a mapped file outlives its name
  auto files =
      std::make_shared<TokenFiles>(write_shards(folder, counting(tokens), 700), TokenFormat::shard, 65536);
  return std::make_shared<TokenSource>(files, 0, static_cast<int64_t>(tokens), sequence_length);
}

std::vector<int64_t> first_tokens(const Batch& batch) {
  std::vector<int64_t> first;
  for (int64_t i = 0; i < batch.inputs.size(0); ++i) first.push_back(batch.inputs[i][0].item<int64_t>());
  return first;
}

constexpr Order kOrders[] = {Order::random, Order::shuffled, Order::sequential};

TEST(Loader, GivesTheSameBatchesHoweverManyAreMadeAhead) {
  const auto source = text_of(5000, 16);
  for (const Order order : kOrders) {
    Loader none(source, {.batch_size = 8, .order = order, .seed = 5, .prefetch = 0});
    Loader many(source, {.batch_size = 8, .order = order, .seed = 5, .prefetch = 7});
    for (int i = 0; i < 100; ++i) {
      const Batch a = none.next();
      const Batch b = many.next();
      ASSERT_TRUE(a.inputs.equal(b.inputs) && a.targets.equal(b.targets)) << i;
    }
  }
}

TEST(Loader, GoesOnExactlyWhereItWas) {
  const auto source = text_of(5000, 16);
  for (const Order order : kOrders) {
    Loader whole(source, {.batch_size = 8, .order = order, .seed = 5});
    for (int i = 0; i < 90; ++i) whole.next();
    EXPECT_EQ(whole.position(), 90);
    Loader resumed(source, {.batch_size = 8, .order = order, .seed = 5});
    resumed.next();
    resumed.seek(90);
    for (int i = 0; i < 20; ++i) ASSERT_TRUE(whole.next().inputs.equal(resumed.next().inputs));
  }
}

TEST(Loader, AnotherSeedGivesOtherBatches) {
  const auto source = text_of(5000, 16);
  for (const Order order : {Order::random, Order::shuffled})
    EXPECT_NE(Loader(source, {.order = order, .seed = 1}).starts(3),
              Loader(source, {.order = order, .seed = 2}).starts(3));
}

TEST(Loader, SlicesTogetherAreTheBatchesAndShareNothing) {
  const auto source = text_of(5000, 16);
  for (const Order order : kOrders) {
    const Loader one(source, {.batch_size = 12, .order = order, .seed = 5});
    for (int64_t position = 0; position < 30; ++position) {
      std::vector<int64_t> together;
      for (int64_t slice = 0; slice < 3; ++slice) {
        const Loader part(source, {.batch_size = 12,
                                   .order = order,
                                   .seed = 5,
                                   .slices = {.per_batch = 3, .stride = 3, .first = slice},
                                   .prefetch = 0});
        const auto starts = part.starts(position);
        EXPECT_EQ(starts.size(), 4U);
        together.insert(together.end(), starts.begin(), starts.end());
      }
      ASSERT_EQ(together, one.starts(position));
      if (order == Order::random) {  // no token is in two windows of a batch
        std::sort(together.begin(), together.end());
        for (size_t i = 1; i < together.size(); ++i) ASSERT_GE(together[i] - together[i - 1], 16);
      }
    }
  }
}

// Steps of two batches of two slices each: a loader of the last three slices of every step.
TEST(Loader, MakesTheSlicesOfEveryStepThatItIsToldTo) {
  const auto source = text_of(5000, 16);
  const Loader all(source, {.batch_size = 6, .seed = 5, .slices = {.per_batch = 2}, .prefetch = 0});
  Loader last(source,
              {.batch_size = 6, .seed = 5, .slices = {.per_batch = 2, .stride = 4, .first = 1, .count = 3}});
  for (int64_t step = 0; step < 5; ++step)
    for (int64_t i = 0; i < 3; ++i) EXPECT_EQ(last.starts(3 * step + i), all.starts(4 * step + 1 + i));
  for (int64_t i = 0; i < 4; ++i) last.next();
  EXPECT_EQ(last.position(), 4);
}

TEST(Loader, ShuffledTakesEveryWindowOnceAnEpoch) {
  const auto source = text_of(16 * 20 + 1, 16);  // slots: 19, so that they fit at any phase
  const Loader loader(source, {.batch_size = 5, .order = Order::shuffled, .seed = 5, .prefetch = 0});
  std::vector<int64_t> starts;
  for (int64_t i = 0; i < 19; ++i) {
    const auto some = loader.starts(i);
    starts.insert(starts.end(), some.begin(), some.end());
  }
  std::set<std::vector<int64_t>> orders;
  for (int epoch = 0; epoch < 5; ++epoch) {
    std::vector<int64_t> part(starts.begin() + 19 * epoch, starts.begin() + 19 * (epoch + 1));
    orders.insert(part);
    std::sort(part.begin(), part.end());
    for (size_t i = 1; i < part.size(); ++i) ASSERT_EQ(part[i] - part[i - 1], 16);
  }
  EXPECT_EQ(orders.size(), 5U);
}

TEST(Loader, RandomReachesEveryStartAboutEquallyOften) {
  for (const size_t tokens : {47, 97, 100}) {
    const auto source = text_of(tokens, 16);
    const Loader loader(source, {.batch_size = 1, .seed = 5, .prefetch = 0});
    std::vector<int> counts(tokens - 16);
    for (int64_t i = 0; i < 1000 * std::ssize(counts); ++i)
      ++counts.at(static_cast<size_t>(loader.starts(i)[0]));
    const double slots =
        static_cast<double>(counts.size()) / 16;  // a phase has one slot more or less than this
    const auto [least, most] = std::minmax_element(counts.begin(), counts.end());
    EXPECT_GT(*least, 1000 * slots / std::ceil(slots) - 150) << tokens;
    EXPECT_LT(*most, 1000 * slots / std::floor(slots) + 150) << tokens;
  }
}

TEST(Loader, ShuffledReachesTheWholeText) {
  const auto source = text_of(47, 16);
  const Loader loader(source, {.batch_size = 1, .order = Order::shuffled, .prefetch = 0});
  std::set<int64_t> starts;
  for (int64_t i = 0; i < 2000; ++i) starts.insert(loader.starts(i)[0]);
  EXPECT_EQ(starts.size(), 31U);
}

TEST(Loader, SequentialReadsTheTextAsItStands) {
  Loader loader(text_of(1000, 10), {.batch_size = 4, .order = Order::sequential});
  EXPECT_EQ(first_tokens(loader.next()), (std::vector<int64_t>{0, 10, 20, 30}));
  EXPECT_EQ(first_tokens(loader.next()), (std::vector<int64_t>{40, 50, 60, 70}));
  loader.seek(24);
  EXPECT_EQ(first_tokens(loader.next()), (std::vector<int64_t>{960, 970, 980, 0}));  // 99 windows fit
}

TEST(Loader, ABatchMayBeLargerThanTheData) {
  Loader loader(text_of(40, 16), {.batch_size = 64});
  EXPECT_EQ(loader.next().inputs.size(0), 64);
  Loader one_window(text_of(17, 16), {.batch_size = 3});
  EXPECT_EQ(first_tokens(one_window.next()), (std::vector<int64_t>{0, 0, 0}));
}

TEST(Loader, HandsOnAnErrorInItsPlace) {
  const TemporaryFolder folder;
  auto tokens = counting(1000, 50);
  tokens[500] = 60;
  auto files = std::make_shared<TokenFiles>(write_shards(folder, tokens), TokenFormat::shard, 50);
  Loader loader(std::make_shared<TokenSource>(files, 0, 1000, 10),
                {.batch_size = 10, .order = Order::sequential});
  for (int i = 0; i < 4; ++i) loader.next();
  for (int i = 0; i < 3;
       ++i) {  // the target of the window before it; again and again, since it is the next one
    EXPECT_ERROR(loader.next(), InputError, "token 500 is 60");
    EXPECT_EQ(loader.position(), 4);
  }
  loader.seek(6);
  EXPECT_EQ(loader.next().inputs[0][0].item<int64_t>(), 600 % 50);
}

TEST(Loader, RefusesOptionsThatMakeNoSense) {
  const auto source = text_of(1000, 10);
  EXPECT_ERROR(Loader(source, {.batch_size = 0}), InputError, "batch_size must be at least 1, got 0");
  EXPECT_ERROR(Loader(source, {.batch_size = 5, .slices = {.per_batch = 2}}), InputError,
               "must be a multiple of the 2 slices");
  EXPECT_ERROR(Loader(source, {.slices = {.stride = 2, .first = 2}}), InputError,
               "slices 2 to 2 must be some of the 2");
  EXPECT_ERROR(Loader(source, {}).seek(-1), InputError, "position -1");
}

}  // namespace
}  // namespace bridle
