#include "train/random_source.h"

#include <gtest/gtest.h>

namespace bridle {
namespace {

TEST(RandomSource, HasTheShapesOfTheRecipe) {
  RunOptions options;
  options.data.sequence_length = 8;
  const DataSet data = random_data_set(options);
  EXPECT_EQ(data.outputs, 65);
  options = resolved(options, data);
  const std::vector<int64_t> starts{3, 9};
  const Batch batch = random_source(options)->read(starts);
  EXPECT_EQ(batch.inputs.sizes(), (std::vector<int64_t>{2, 8}));
  EXPECT_TRUE(batch.inputs.narrow(1, 1, 7).equal(batch.targets.narrow(1, 0, 7)));
  EXPECT_LT(batch.targets.max().item<int64_t>(), 65);
  EXPECT_TRUE(random_source(options)->read(starts).inputs.equal(batch.inputs));
}

TEST(RandomSource, HasImagesForAnMlp) {
  RunOptions options;
  options.model.kind = ModelKind::mlp;
  options = resolved(options, random_data_set(options));
  const Batch batch = random_source(options)->read(std::vector<int64_t>{0, 1, 2});
  EXPECT_EQ(batch.inputs.sizes(), (std::vector<int64_t>{3, 3072}));
  EXPECT_EQ(batch.targets.sizes(), (std::vector<int64_t>{3}));
  EXPECT_LT(batch.targets.max().item<int64_t>(), 10);
}

TEST(RandomSource, TakesTheVocabularyThatTheModelNames) {
  RunOptions options;
  options.model.transformer.vocab_size = 50304;
  EXPECT_EQ(random_data_set(options).outputs, 50304);
  options.model.transformer.real_vocab_size = 50257;
  EXPECT_EQ(random_data_set(options).outputs, 50257);
}

}  // namespace
}  // namespace bridle
