// One training by several ranks: the same bytes as by one process.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <nlohmann/json.hpp>

#include "bridle/error.h"
#include "io/certificate_file.h"
#include "rank_support.h"
#include "source_support.h"
#include "support.h"
#include "train_support.h"

namespace bridle {
namespace {

namespace fs = std::filesystem;
using test::TemporaryData;

// Makes the model and data of each rank for itself.
using MakeParts = std::function<TrainerParts()>;

struct Case {
  RunOptions options;
  MakeParts parts = {};  // none: those of the recipe
};

std::vector<nlohmann::json> metrics(const fs::path& run) {
  std::ifstream file(run / "metrics.jsonl");
  std::vector<nlohmann::json> lines;
  for (std::string line; std::getline(file, line);) {
    lines.push_back(nlohmann::json::parse(line));
    for (const char* clock : {"seconds", "tokens_per_second", "images_per_second"}) lines.back().erase(clock);
  }
  return lines;
}

std::unique_ptr<Trainer> trainer(const Case& one, const fs::path& folder, bool resumed,
                                 const TrainListener& listener, const std::shared_ptr<Ranks>& ranks) {
  if (resumed) {
    return one.parts ? Trainer::resume(folder, one.parts(), listener, ranks)
                     : Trainer::resume(folder, listener, std::nullopt, ranks);
  }
  return one.parts ? std::make_unique<Trainer>(one.options, one.parts(), folder, listener, ranks)
                   : std::make_unique<Trainer>(one.options, folder, listener, ranks);
}

// To the last step, or until rank 0 has been told to stop after this one.
void train(const Case& one, const fs::path& folder, int64_t size, int64_t stop_after = 0) {
  const bool resumed = fs::exists(folder / "config.toml");
  const auto work = [&](const std::shared_ptr<Ranks>& ranks) {
    std::atomic<bool> stop{false};
    TrainListener listener;
    if (ranks->leads())
      listener.progress = [&](const TrainProgress& progress) { stop = progress.step == stop_after; };
    const auto own = trainer(one, folder, resumed, listener, ranks);
    EXPECT_EQ(own->run(&stop).finished, stop_after == 0);
  };
  size == 1 ? work(alone()) : test::as_ranks(size, work);
}

void expect_same(const fs::path& a, const fs::path& b, int64_t step) {
  EXPECT_TRUE(read_file(a / "model.safetensors") == read_file(b / "model.safetensors")) << b;
  const fs::path state = fmt::format("state/step_{:08}/state.safetensors", step);
  EXPECT_TRUE(read_file(a / state) == read_file(b / state)) << b;
  EXPECT_EQ(metrics(a), metrics(b)) << b;
  ASSERT_EQ(fs::exists(a / "certificate.json"), fs::exists(b / "certificate.json"));
  if (!fs::exists(a / "certificate.json")) return;
  EXPECT_EQ(read_file(a / "certificate.json"), read_file(b / "certificate.json")) << b;
}

RunOptions fifty_steps() {
  RunOptions options = test::small_run();
  options.training.steps = 50;
  options.training.evaluate_every = 20;
  options.training.checkpoint_every = 20;
  options.training.evaluate_tokens = 512;
  return options;
}

Case budget() {
  Case one{fifty_steps()};
  one.options.constraint.lipschitz = 5.0;
  one.options.training.slices = 4;
  one.options.training.log_activations = true;
  one.options.model.transformer.dropout = 0.1;
  one.options.data.token_noise = 0.1;
  return one;
}

// Clipped gradients, batches that are accumulated, and a constraint that keeps vectors between its steps.
Case accumulating() {
  Case one{fifty_steps()};
  one.options.training.accumulate = 2;
  one.options.training.slices = 2;
  one.options.training.precision = Precision::bfloat16;
  one.options.optimizer.gradient_clip = 0.1;
  one.options.constraint.options.method = "hammer";
  return one;
}

Case mlp() {
  Case one{fifty_steps()};
  one.options.optimizer = {.method = OptimizerMethod::adamw, .lr = 0.01};
  one.options.constraint.options.method = "normalize";
  one.options.training.accumulate = 4;
  one.parts = [] {
    const at::Tensor images = test::normal({64, 48}, 5, at::kFloat),
                     labels = random_integers({64}, 10, {.seed = 1, .stream = Stream::test});
    TrainerParts parts;
    parts.model = make_model(MlpOptions{.layer_sizes = {48, 32, 32, 10}}, 3);
    parts.train = std::make_shared<test::FixedSource>(images, labels);
    parts.validation = parts.train;
    return parts;
  };
  return one;
}

struct NamedCase {
  const char* name;
  Case (*make)();
};

class Together : public testing::TestWithParam<NamedCase> {};

TEST_P(Together, RanksTrainAsOneProcessDoes) {
  const TemporaryData data;
  test::import_words(data);
  const Case one = GetParam().make();
  train(one, data / "run_1", 1);
  for (const int64_t size : {2, 4}) {
    const fs::path folder = data / fmt::format("run_{}", size);
    train(one, folder, size);
    expect_same(data / "run_1", folder, 50);
  }
}

TEST_P(Together, AnyNumberOfRanksGoesOnWithARun) {
  const TemporaryData data;
  test::import_words(data);
  const Case one = GetParam().make();
  train(one, data / "whole", 1);
  train(one, data / "parts", 2, 13);
  train(one, data / "parts", 4, 20);
  train(one, data / "parts", 1, 31);
  train(one, data / "parts", 3);
  expect_same(data / "whole", data / "parts", 50);
}

INSTANTIATE_TEST_SUITE_P(Ranks, Together,
                         testing::Values(NamedCase{"budget", budget}, NamedCase{"accumulating", accumulating},
                                         NamedCase{"mlp", mlp}),
                         [](const auto& named) { return std::string(named.param.name); });

TEST(TogetherRanks, RefuseToShareLessSlicesThanTheyAre) {
  const TemporaryData data;
  test::import_words(data);
  try {
    train({test::small_run()}, data / "run", 2);
    FAIL() << "one slice was shared";
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string(error.what()).find("training.slices=2"), std::string::npos) << error.what();
  }
}

TEST(TogetherRanks, SayWhoHasAnotherRecipe) {
  const TemporaryData data;
  test::import_words(data);
  std::vector<std::string> errors(2);
  EXPECT_THROW(test::as_ranks(2,
                              [&](const std::shared_ptr<Ranks>& ranks) {
                                Case one{fifty_steps()};
                                one.options.training.slices = 2;
                                if (ranks->rank() == 1) one.options.optimizer.lr = 0.25;
                                try {
                                  trainer(one, data / "run", false, {}, ranks);
                                } catch (const RankError& error) {
                                  errors[static_cast<size_t>(ranks->rank())] = error.what();
                                  throw;
                                }
                              }),
               std::runtime_error);
  for (const std::string& error : errors)
    EXPECT_NE(
        error.find(
            "rank 1 of 2 has another recipe or other data than rank 0: [optimizer] lr = 0.25 instead of "
            "lr = 0.5"),
        std::string::npos)
        << error;
  EXPECT_FALSE(fs::exists(data / "run/config.toml"));
}

// Each rank proves what it owns; one that cannot stops all.
TEST(TogetherRanks, EndWithTheReasonOfTheOneThatFailed) {
  const TemporaryData data;
  test::import_words(data);
  const auto errors_with = [&](int64_t failing) {
    std::vector<std::string> errors(2);
    EXPECT_THROW(test::as_ranks(2,
                                [&](const std::shared_ptr<Ranks>& ranks) {
                                  Case one{fifty_steps()};
                                  one.options.training.slices = 2;
                                  const auto own =
                                      trainer(one, data / fmt::format("run_{}", failing), false,
                                              {.progress =
                                                   [&](const TrainProgress& progress) {
                                                     if (progress.step == 7 && ranks->rank() == failing)
                                                       throw PromiseError("constraint", "not proved");
                                                   }},
                                              ranks);
                                  try {
                                    own->run();
                                  } catch (const Error& error) {
                                    errors[static_cast<size_t>(ranks->rank())] = error.what();
                                    throw;
                                  }
                                }),
                 std::runtime_error);
    return errors;
  };
  for (const int64_t failing : {0, 1}) {
    const auto errors = errors_with(failing);
    EXPECT_EQ(errors[static_cast<size_t>(failing)], "[constraint] not proved");
    EXPECT_EQ(errors[static_cast<size_t>(1 - failing)],
              fmt::format("[ranks] rank {} of 2: [constraint] not proved", failing));
  }
}

}  // namespace
}  // namespace bridle
