#include "data/token_source.h"

#include <ATen/ops/arange.h>

#include "bridle/error.h"
#include "data_support.h"

namespace bridle {
namespace {

using test::counting;
using test::TemporaryFolder;
using test::write_shards;

class TokenSourceTest : public testing::Test {
 private:
  TemporaryFolder folder_;

 protected:
  std::shared_ptr<TokenFiles> files_ =
      std::make_shared<TokenFiles>(write_shards(folder_, counting(100)), TokenFormat::shard, 100);
};

TEST_F(TokenSourceTest, TargetsAreTheNextTokens) {
  const TokenSource source(files_, 10, 60, 8);
  EXPECT_EQ(source.size(), 42);
  const std::vector<int64_t> starts{0, 41};
  const Batch batch = source.read(starts);
  EXPECT_TRUE(batch.inputs[0].equal(at::arange(10, 18, at::kLong)));
  EXPECT_TRUE(batch.targets[0].equal(at::arange(11, 19, at::kLong)));
  EXPECT_TRUE(batch.targets[1].equal(at::arange(52, 60, at::kLong)));  // the last token that there is
  EXPECT_TRUE(batch.inputs.is_contiguous() && batch.targets.is_contiguous());
}

TEST_F(TokenSourceTest, TheRemainderHoldsTheLastTargets) {
  const Batch rest = TokenSource(files_, 0, 100, 8).remainder().value();
  EXPECT_TRUE(rest.inputs[0].equal(at::arange(96, 99, at::kLong)));
  EXPECT_TRUE(rest.targets[0].equal(at::arange(97, 100, at::kLong)));
  EXPECT_FALSE(TokenSource(files_, 0, 97, 8).remainder().has_value());
}

TEST_F(TokenSourceTest, ASequenceLongerThanTheDataIsRefused) {
  EXPECT_EQ(TokenSource(files_, 0, 100, 99).size(), 1);
  EXPECT_ERROR(TokenSource(files_, 0, 100, 100), InputError,
               "sequence_length = 100 needs 101 tokens and this part of the data has 100");
  EXPECT_ERROR(TokenSource(files_, 0, 100, 0), InputError, "at least 1");
}

}  // namespace
}  // namespace bridle
