// Runs of a model that no recipe knows.
#include "bridle/certify.h"
#include "bridle/error.h"
#include "bridle/safetensors.h"
#include "file_support.h"
#include "io/certificate_file.h"
#include "own_model.h"
#include "support.h"
#include "train_support.h"

namespace bridle {
namespace {

using test::entries;
using test::own_parts;
using test::own_run;
using test::TemporaryFolder;

double sum_of_losses(const std::shared_ptr<test::MemorySink>& sink, size_t first) {
  double sum = 0.0;
  for (size_t i = first; i < first + 3; ++i) sum += std::get<double>(sink->records[i].find("loss")->value);
  return sum;
}

TEST(OwnModel, LearnsUnderItsConstraints) {
  const TemporaryFolder folder;
  RunOptions options = own_run();
  options.training.steps = 60;
  options.training.log_every = 1;
  options.training.evaluate_every = 0;
  const auto sink = std::make_shared<test::MemorySink>();
  Trainer trainer(options, own_parts(), folder / "run", {.progress = {}, .note = {}, .sinks = {sink}});
  const TrainSummary summary = trainer.run();
  EXPECT_TRUE(summary.finished);
  EXPECT_LT(sum_of_losses(sink, 57), sum_of_losses(sink, 0));
  for (const Param& param : trainer.model().params()) EXPECT_TRUE(prove_norm(param, 1.0)) << param.name;
  ASSERT_TRUE(summary.bound);
  EXPECT_LE(summary.bound->lipschitz.value, 1.0);  // two matrices of RMS→RMS norm at most 1
}

// No options describe it: its weights are all that others can read.
TEST(OwnModel, LeavesItsWeights) {
  const TemporaryFolder folder;
  Trainer trainer(own_run(), own_parts(), folder / "run");
  trainer.run();
  EXPECT_EQ(entries(folder / "run"),
            (std::vector<std::string>{"config.toml", "metrics.jsonl", "model.safetensors", "state"}));
  const SafetensorsFile stored = read_safetensors(folder / "run/model.safetensors");
  for (const Param& param : trainer.model().params())
    EXPECT_TRUE(stored.at(param.name).equal(param.tensor.detach())) << param.name;
  EXPECT_EQ(read_file(folder / "run/config.toml").find("[model]"), std::string::npos);
}

TEST(OwnModel, ResumesBitForBit) {
  for (const double budget : {0.0, 0.5}) {
    const TemporaryFolder folder;
    RunOptions options = own_run();
    options.constraint.lipschitz = budget;
    const TrainSummary whole = Trainer(options, own_parts(), folder / "whole").run();
    std::atomic<bool> stop{false};
    const TrainListener listener{.progress = [&](const TrainProgress& p) { stop = p.step == 13; }};
    EXPECT_FALSE(Trainer(options, own_parts(), folder / "parts", listener).run(&stop).finished);
    EXPECT_EQ(entries(folder / "parts/state"),
              (std::vector<std::string>{".lock", "step_00000010", "step_00000013"}));
    const TrainSummary resumed = Trainer::resume(folder / "parts", own_parts())->run();
    EXPECT_TRUE(resumed.finished);
    EXPECT_EQ(resumed.validation_loss, whole.validation_loss);
    EXPECT_TRUE(read_file(folder / "whole/model.safetensors") ==
                read_file(folder / "parts/model.safetensors"));
    EXPECT_TRUE(read_file(folder / "whole/state/step_00000020/state.safetensors") ==
                read_file(folder / "parts/state/step_00000020/state.safetensors"));
    if (budget > 0.0) {
      EXPECT_LE(resumed.bound_of_caps.to_double(), budget);
      EXPECT_LE(resumed.bound->lipschitz.value, budget);
    }
  }
}

TEST(OwnModel, IsSaidNotToBeFused) {
  const TemporaryFolder folder;
  std::vector<std::string> said;
  RunOptions options = own_run();
  options.training.steps = 1;
  Trainer(options, own_parts(), folder / "run",
          {.note = [&](const std::string& text) { said.push_back(text); }})
      .run();
  ASSERT_FALSE(said.empty());
  EXPECT_EQ(said.front(), "this run takes LibTorch's plain operators: this model has no fused pass");
}

// Bridle's MLP behind a class of its own, which says what it is.
class Described : public test::SineNetwork {
 public:
  Described() : own_(make_model(MlpOptions{.layer_sizes = {16, 16, 4}}, 5)) { params_ = own_->params(); }
  at::Tensor forward_from(const at::Tensor& embedded, Pass& pass) const override {
    return own_->forward_from(embedded, pass);
  }
  Bound bound(const UpperBound& domain, Walk& walk) const override { return own_->bound(domain, walk); }
  std::optional<ModelOptions> options() const override { return own_->options(); }

 private:
  std::unique_ptr<Model> own_;
};

TEST(OwnModel, IsCertifiedForOthersWhereOptionsDescribeIt) {
  const TemporaryFolder folder;
  TrainerParts parts = own_parts();
  parts.model = std::make_unique<Described>();
  const TrainSummary summary = Trainer(own_run(), std::move(parts), folder / "run").run();
  const CheckedCertificate checked = check_certificate(folder / "run/certificate.json", folder / "run");
  EXPECT_EQ(checked.certificate.bound.lipschitz.value, summary.bound->lipschitz.value);
}

TEST(OwnModel, SaysWhatItCannotDo) {
  const test::SineNetwork model;
  EXPECT_FALSE(model.options());
  EXPECT_EQ(model.why_not_fused({}), "this model has no fused pass");
  EXPECT_ERROR(model.logit_rows(), InputError, "this model has no logit_rows");
  EXPECT_ERROR(model.flop(1), InputError, "this model has no flop");
  EXPECT_ERROR(paper_formula(model, *measured_norms()), InputError, "no options describe");
  const TemporaryFolder folder;
  EXPECT_ERROR(write_model(model, folder), InputError, "no options describe this model");
  EXPECT_TRUE(entries(folder).empty());
}

TEST(OwnModel, IsResumedOnlyByWhatMadeIt) {
  const TemporaryFolder folder;
  Trainer(own_run(), own_parts(), folder / "run").run();
  EXPECT_ERROR(Trainer::resume(folder / "run"), InputError, "whose model and data a program has made");
  EXPECT_ERROR(Trainer(own_run(), own_parts(), folder / "run"), InputError, "holds a run already");
  TrainerParts other = own_parts();
  other.model = make_model(MlpOptions{.layer_sizes = {16, 8, 4}}, 1);
  EXPECT_ERROR(Trainer::resume(folder / "run", std::move(other)), InputError, "the model has no weight");
  EXPECT_ERROR(Trainer::resume(folder / "run", TrainerParts{}), InputError, "one of them is null");
  EXPECT_ERROR(Trainer(own_run(), TrainerParts{.model = std::make_unique<test::SineNetwork>()}, folder / "n"),
               InputError, "one of them is null");
  EXPECT_FALSE(std::filesystem::exists(folder / "n"));
  EXPECT_TRUE(Trainer::resume(folder / "run", own_parts())->run().finished);
}

TEST(OwnModel, DoesNotTakeOverARecipesRun) {
  const test::TemporaryData data;
  test::import_words(data);
  { const Trainer recipe(test::small_run(), data / "run"); }
  EXPECT_ERROR(Trainer::resume(data / "run", own_parts()), InputError, "is of a recipe's run");
}

}  // namespace
}  // namespace bridle
