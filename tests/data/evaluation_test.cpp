#include <numeric>

#include "bridle/error.h"
#include "bridle/loader.h"
#include "data/token_source.h"
#include "data_support.h"

namespace bridle {
namespace {

using test::counting;
using test::TemporaryFolder;
using test::write_shards;

std::shared_ptr<const Source> text_of(size_t tokens, int64_t sequence_length) {
  const TemporaryFolder folder;
  auto files =
      std::make_shared<TokenFiles>(write_shards(folder, counting(tokens)), TokenFormat::shard, 65536);
  return std::make_shared<TokenSource>(files, 0, static_cast<int64_t>(tokens), sequence_length);
}

TEST(Evaluation, WholeMeetsEveryTargetOnce) {
  for (const size_t tokens : {17, 18, 33, 160, 161, 162, 999}) {
    const Evaluation whole(text_of(tokens, 16), {.batch_size = 4});
    std::vector<int> met(tokens);
    for (int64_t i = 0; i < whole.size(); ++i) {
      const Batch batch = whole[i];
      ASSERT_EQ(batch.inputs.sizes(), batch.targets.sizes());
      for (int64_t j = 0; j < batch.targets.numel(); ++j)
        ++met[static_cast<size_t>(batch.targets.reshape({-1})[j].item<int64_t>())];
    }
    EXPECT_EQ(met[0], 0);
    for (size_t i = 1; i < tokens; ++i) ASSERT_EQ(met[i], 1) << "target " << i << " of " << tokens;
  }
}

TEST(Evaluation, MeetsTheFirstTargetsAloneWhereSoManyAreAskedFor) {
  for (const auto& [asked, met] :
       {std::pair{1, 16}, {16, 16}, {17, 32}, {64, 64}, {65, 80}, {500, 160}, {0, 160}}) {
    const Evaluation part(text_of(161, 16), {.batch_size = 4, .targets = asked});
    int64_t targets = 0;
    for (int64_t i = 0; i < part.size(); ++i) targets += part[i].targets.numel();
    EXPECT_EQ(targets, met) << asked;
    EXPECT_EQ(part[0].targets[0][0].item<int64_t>(), 1);
  }
  EXPECT_ERROR(Evaluation(text_of(100, 16), {.targets = -1}), InputError, "targets = -1");
}

TEST(Evaluation, PaperTakesWindowsOneApart) {
  const Evaluation paper(text_of(5000, 256), {.protocol = Protocol::paper});
  ASSERT_EQ(paper.size(), 20);
  int64_t start = 0;
  int64_t last = 0;
  for (int64_t i = 0; i < paper.size(); ++i) {
    const Batch batch = paper[i];
    ASSERT_EQ(batch.inputs.size(0), 64);
    for (int64_t row = 0; row < 64; ++row) ASSERT_EQ(batch.inputs[row][0].item<int64_t>(), start++);
    last = batch.targets[63][255].item<int64_t>();
  }
  EXPECT_EQ(last, 1535);  // the first 1,536 characters are all that it sees
}

TEST(Evaluation, PaperStopsWhereTheDataEnds) {
  const Evaluation paper(text_of(100, 16), {.protocol = Protocol::paper, .batch_size = 50});
  ASSERT_EQ(paper.size(), 2);
  EXPECT_EQ(paper[1].inputs.size(0), 34);
  EXPECT_ERROR(paper[2], InputError, "batch 2 of 2");
  EXPECT_ERROR(paper[-1], InputError, "batch -1");
}

TEST(Evaluation, RefusesOptionsThatMakeNoSense) {
  EXPECT_ERROR(Evaluation(text_of(100, 16), {.batch_size = 0}), InputError,
               "batch_size must be at least 1, got 0");
  EXPECT_ERROR(Evaluation(text_of(100, 16), {.protocol = Protocol::paper, .iterations = 0}), InputError,
               "iterations must be at least 1, got 0");
}

}  // namespace
}  // namespace bridle
