#include <cmath>

#include "train_support.h"

namespace bridle {
namespace {

using test::TemporaryData;

TransformerOptions small_options(const DataSet& data) {
  TransformerOptions options = test::small_run().model.transformer;
  options.vocab_size = data.outputs;
  options.max_position_embeddings = 32;
  options.initialization = Initialization::normal;
  return options;
}

TEST(Evaluate, DoesNotDependOnTheBatches) {
  const TemporaryData data;
  test::import_words(data, 5000);
  const DataSet words = open_data_set("words");
  const auto source = open_split(words, Split::validation, {.sequence_length = 32});
  const TransformerOptions options = small_options(words);
  const auto model = make_model(options, 1);
  const EvaluationResult one = evaluate(*model, source, {.order = {.batch_size = 1}, .statistics = true});
  const EvaluationResult many = evaluate(*model, source, {.order = {.batch_size = 7}});
  EXPECT_NEAR(one.loss, many.loss, 1e-6);
  EXPECT_EQ(one.targets, many.targets);
  EXPECT_EQ(one.targets, words.validation[0].count - 1);
  EXPECT_NEAR(one.loss, std::log(static_cast<double>(words.outputs)), 0.5);
  EXPECT_EQ(one.statistics.layers.size(), 6U);
  EXPECT_TRUE(many.statistics.layers.empty());
}

TEST(Evaluate, SeesWhatWindowsHaveGrownTo) {
  const TemporaryData data;
  test::import_words(data, 5000);
  const DataSet words = open_data_set("words");
  const auto source = open_split(words, Split::validation, {.sequence_length = 32});
  TransformerOptions options = small_options(words);
  options.attention_window = 1;
  const auto weights = make_model(options, 1);
  const auto with_window = [&](int64_t window, int64_t block) {
    options.attention_window = window;
    options.window_block = block;
    return make_model_from(
        [&](const std::string& name, at::IntArrayRef) {
          for (const Param& param : weights->params())
            if (param.name == name) return param.tensor.detach().mul(20.0);
          return at::Tensor();
        },
        options);
  };
  const auto grown = with_window(32, 4), own_block = with_window(4, 4);
  EXPECT_EQ(evaluate(*grown, source, {.window_share = 0.0}).loss, evaluate(*own_block, source).loss);
  EXPECT_NE(evaluate(*grown, source).loss, evaluate(*own_block, source).loss);
}

}  // namespace
}  // namespace bridle
