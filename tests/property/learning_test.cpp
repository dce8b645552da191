// Every constraint with both optimizers must learn: a small transformer on a text whose next letter depends on more than the
// last one beats counting pairs of letters by a margin.
#include <gtest/gtest.h>

#include "bridle/constraint.h"
#include "train_support.h"

namespace bridle {
namespace {

struct Pair {
  std::string constraint;
  OptimizerMethod optimizer;
  friend void PrintTo(const Pair& pair, std::ostream* out) {
    *out << pair.constraint << " with " << word(pair.optimizer);
  }
};

std::vector<Pair> pairs() {
  std::vector<Pair> all;
  for (const std::string& name : constraint_names()) {
    all.push_back({name, OptimizerMethod::muon});
    if (!make_constraint({.method = name})->needs_update_bound())
      all.push_back({name, OptimizerMethod::adamw});
  }
  return all;
}

class Learning : public testing::TestWithParam<Pair> {};

TEST_P(Learning, BeatsCountingPairsOfLetters) {
  const test::TemporaryData data;
  test::import_words(data, 30000);
  RunOptions options = test::small_run();
  options.optimizer.method = GetParam().optimizer;
  options.optimizer.lr = GetParam().optimizer == OptimizerMethod::muon ? 2.0 : 0.01;
  options.optimizer.weight_decay = GetParam().constraint == "weight_decay" ? 0.1 : 0.0;
  options.constraint.options.method = GetParam().constraint;
  options.constraint.options.spectral_decay = 0.01;
  options.constraint.sigma_max = 3.0;
  if (GetParam().constraint == "stiefel" ||
      GetParam().constraint == "parseval") {  // these hold all singular values at the cap
    options.constraint.sigma_max = 1.0;
    if (GetParam().optimizer == OptimizerMethod::muon)
      options.model.transformer.final_scale = 4.0;
    else
      options.optimizer.lr = 0.03;
  }
  options.model.transformer.attention_alpha = options.model.transformer.mlp_alpha = 0.5;
  options.model.transformer.attention_output_scale = 1.0;
  options.training = {.steps = 250, .seed = 7, .log_every = 250, .evaluate_every = 0, .checkpoint_every = 0};
  const TrainSummary summary = Trainer(options, data / "run").run();
  EXPECT_LT(summary.validation_loss, test::bigram_loss("words") - 0.3);
}

INSTANTIATE_TEST_SUITE_P(Pairs, Learning, testing::ValuesIn(pairs()), [](const auto& pair) {
  return pair.param.constraint + "_" + word(pair.param.optimizer);
});

}  // namespace
}  // namespace bridle
