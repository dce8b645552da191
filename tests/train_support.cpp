// See train_support.h.
#include "train_support.h"

#include <ATen/TensorAccessor.h>

#include <cmath>

#include "bridle/random.h"

namespace bridle::test {

std::string grammar_text(size_t characters, uint64_t seed) {
  const std::vector<std::string> subjects{"the whale", "the captain",  "a sailor",
                                          "the mate",  "an albatross", "the harpooner"};
  const std::vector<std::string> verbs{" follows ", " fears ", " watches ", " remembers ", " forgets "};
  const std::vector<std::string> ends{" at dawn\n", " in silence\n", " before the storm\n", "\n"};
  const at::Tensor numbers =
      random_integers({static_cast<int64_t>(characters)}, 1U << 20U, {.seed = seed, .stream = Stream::test});
  const auto number = numbers.accessor<int64_t, 1>();
  std::string text;
  for (int64_t i = 0; text.size() < characters; i += 4) {
    const auto pick = [&](const std::vector<std::string>& list, int64_t k) {
      return list[static_cast<size_t>(number[i + k]) % list.size()];
    };
    text += pick(subjects, 0) + pick(verbs, 1) + pick(subjects, 2) + pick(ends, 3);
  }
  return text;
}

void import_words(const TemporaryData& data, size_t characters) {
  write_file(data / "words.txt", grammar_text(characters));
  import_text("words", {.text = data / "words.txt"});
}

RunOptions small_run() {
  RunOptions options;
  options.data = {.name = "words", .sequence_length = 32, .batch_size = 8};
  options.model.transformer = {.hidden_size = 32,
                               .num_hidden_layers = 2,
                               .num_attention_heads = 4,
                               .softmax_scale = 2.0,
                               .final_scale = 8.0};
  options.optimizer.lr = 0.5;
  options.constraint.sigma_max = 2.0;
  options.training = {.steps = 20, .seed = 7, .log_every = 5, .evaluate_every = 10, .checkpoint_every = 5};
  return options;
}

Run short_run(const TemporaryData& data) {
  import_words(data);
  RunOptions options = small_run();
  options.training.steps = 2;
  Trainer(options, data / "run").run();
  return open_run(data / "run");
}

double bigram_loss(const std::string& data_name) {
  const DataSet data = open_data_set(data_name);
  const auto tokens = [&](const std::vector<DataFile>& files) {
    const TokenFiles stream(files, TokenFormat::shard, data.outputs);
    std::vector<int64_t> all(static_cast<size_t>(stream.size()));
    stream.read(0, all);
    return all;
  };
  const auto size = static_cast<size_t>(data.outputs);
  std::vector<double> pairs(size * size, 0.01);
  std::vector<double> firsts(size, 0.01 * static_cast<double>(size));
  const auto train = tokens(data.train);
  for (size_t i = 1; i < train.size(); ++i) {
    pairs[static_cast<size_t>(train[i - 1]) * size + static_cast<size_t>(train[i])] += 1.0;
    firsts[static_cast<size_t>(train[i - 1])] += 1.0;
  }
  double loss = 0.0;
  const auto validation = tokens(data.validation);
  for (size_t i = 1; i < validation.size(); ++i) {
    const auto first = static_cast<size_t>(validation[i - 1]);
    loss -= std::log(pairs[first * size + static_cast<size_t>(validation[i])] / firsts[first]);
  }
  return loss / static_cast<double>(validation.size() - 1);
}

}  // namespace bridle::test
