// Training: what a recipe says, and a run from its first step to its last.
//
//   RunOptions options = read_recipe("recipes/quickstart.toml", {"training.steps=500"});
//   Trainer trainer(options, "runs/first");
//   trainer.run();
#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bridle/certify.h"
#include "bridle/constraint.h"
#include "bridle/loader.h"
#include "bridle/metrics.h"
#include "bridle/nn.h"
#include "bridle/optim.h"

namespace bridle {

class Ranks;

// Of products; the master weights are float32. Recipes speak of choices in words, null past the last.
enum class Precision { float32, bfloat16 };
const char* word(Precision precision);

// Which of q, k, v are constrained head by head; automatic ("auto") is kv with a sound budget, whole otherwise.
enum class HeadBlocks { automatic, whole, kv, qkv };
const char* word(HeadBlocks heads);

// What a budget is about: the sound bound, or the paper's formula, which is no bound (docs/theory/modules.md).
enum class BoundFormula { sound, paper };
const char* word(BoundFormula formula);

struct DataOptions {
  std::string name = "shakespeare";
  int64_t sequence_length = 256;
  int64_t batch_size = 64;
  Order order = Order::random;
  double held_out = 0.0;
  double token_noise = 0.0;
  bool standardize = false;
  bool mirror = false;
  int64_t shift = 0;
  double random_labels = 0.0;
};

struct ConstraintSettings {
  ConstraintOptions options = {};
  double sigma_max = 1.0;
  double head_sigma_max = 0.0;  // of the head; 0: sigma_max
  HeadBlocks heads = HeadBlocks::automatic;
  double lipschitz =
      0.0;  // budget: caps of 1, and a head whose cap makes this of the bound; 0: sigma_max instead
  BoundFormula formula = BoundFormula::sound;
  double embedding_cap = 1.0;  // RMS of a row; 0: none
  int64_t prove_every = 10;    // steps; evaluation and saving prove as well
  double coupling_room = 1.0;  // methods are told that updates are so many times as long as their bound
};

// Where a run's metrics go.
enum class SinkKind { jsonl, tensorboard };
const char* word(SinkKind kind);

struct TrainingOptions {
  int64_t steps = 2000;
  uint64_t seed = 0;
  Precision precision = Precision::float32;
  int64_t accumulate = 1;     // batches per step
  int64_t slices = 1;         // equal parts of a batch; processes share the accumulate·slices of a step
  double margin = 0.0;        // taken off the right class's logit, for certified radii
  bool grow_windows = false;  // attention windows grow from one block to the whole, with the steps
  int64_t log_every = 10;
  bool log_activations = false;  // largest RMS and entry after every layer, in metrics
  int64_t evaluate_every = 200;
  int64_t evaluate_tokens = 0;  // targets of the validation split, from its beginning; 0: all
  int64_t checkpoint_every = 200;
  std::vector<SinkKind> sinks = {SinkKind::jsonl};  // jsonl is one of them
};

struct RunOptions {
  DataOptions data = {};
  ModelRecipe model = {};
  OptimizerOptions optimizer = {};
  ScheduleOptions schedule = {};
  ConstraintSettings constraint = {};
  TrainingOptions training = {};
  at::Device device = at::kCPU;  // where models compute and are trained; not a key: a run may go on elsewhere
};

// A TOML recipe and settings over it ("section.key=value"). Throws InputError for an unknown key, naming the nearest.
RunOptions read_recipe(const std::filesystem::path& path, const std::vector<std::string>& set = {});
std::string recipe_text(const RunOptions& options);

// The config.toml of a run, which holds every key. Throws InputError where one is missing: the file was cut off, or an earlier
// version wrote it.
RunOptions read_config(const std::filesystem::path& path, const std::vector<std::string>& set = {});
std::string recipe_keys();  // every key with its default and what it means

// Sizes that the data decides, and everything that is refused. Throws InputError.
RunOptions resolved(RunOptions options, const DataSet& data);

// How far attention windows have grown after so many steps: 1 at the end, and always where they do not grow.
double window_share(const TrainingOptions& training, int64_t step);

// Loss and accuracy are means over all targets.
struct EvaluationResult {
  double loss = 0.0;
  double accuracy = 0.0;
  int64_t targets = 0;
  ActivationStatistics statistics = {};
};

struct EvaluateOptions {
  EvaluationOptions order = {};
  at::ScalarType dtype = at::kFloat;
  bool statistics = false;
  double window_share = 1.0;  // how far windows have grown
  Ranks* ranks =
      nullptr;  // share the batches: all of them call this together and have the same result; null: alone
};
EvaluationResult evaluate(const Model& model, const std::shared_ptr<const Source>& source,
                          const EvaluateOptions& options = {}, const OnProgress& progress = {});

// One pass forward and back, fused where the model can; and forward alone, without gradients.
LossAndGradients loss_and_gradients(const Model& model, const Batch& batch, Pass& pass);
LossAndGradients loss_only(const Model& model, const Batch& batch, Pass& pass);

// What a run tells on its way.
struct TrainProgress {
  int64_t step = 0;  // done
  int64_t steps = 0;
  double loss = 0.0;
  double accuracy = 0.0;
  double examples_per_second = 0.0;  // tokens, or images
  double seconds_left = 0.0;
};

struct TrainListener {
  std::function<void(const TrainProgress&)> progress = {};
  std::function<void(const std::string&)> note = {};
  std::vector<std::shared_ptr<MetricSink>> sinks = {};  // besides metrics.jsonl
};

struct TrainSummary {
  int64_t step = 0;
  bool finished = false;  // false: it was asked to stop
  double train_loss = 0.0;
  double validation_loss = 0.0;
  double validation_accuracy = 0.0;
  int64_t repairs = 0;
  double budget = 0.0;         // 0: none was named
  bool papers_budget = false;  // it is about the paper's formula, which is no bound
  UpperBound bound_of_caps;    // with a budget: of the caps in force, kept at every step
  std::optional<CertifiedBound> bound =
      {};                         // of the last evaluation, from verified norms; none: there is no finite one
  bool sealed = false;            // weights were scaled at the end, so that every promised cap is proved
  double loss_before_seal = 0.0;  // on the validation split
  double seconds = 0.0;
};

// A model and its data, made by a program instead of a recipe's [model] and [data]. The model may be of a class of one's own:
//   - its params have unique names, roles and finite values, and the options' weight constraints apply to them by role;
//   - bound and input_bound are sound for every value of the weights: budgets, metrics and the summary rest on them;
//   - where options() describes it, the run's folder holds config.json and certificate.json as that of a recipe does; where not,
//     it holds the weights alone (model.safetensors), and the bound stands in the summary and the metrics.
// Sources give tokens where the model's shape().input is tokens, vectors of shape().size numbers where it is vectors.
struct TrainerParts {
  std::unique_ptr<Model> model = nullptr;
  std::shared_ptr<const Source> train = nullptr;
  std::shared_ptr<const Source> validation = nullptr;
};

class TrainingRun;

// With `ranks` (bridle/ranks.h) several processes train one model, and each makes a Trainer with the same options: the result has
// the same bytes with any number of them. The folder is that of rank 0, which alone reads and writes it and tells the listener.
class Trainer {
 public:
  // A new run in an empty or missing folder. Throws InputError where there is a run already.
  Trainer(const RunOptions& options, const std::filesystem::path& folder, const TrainListener& listener = {},
          std::shared_ptr<Ranks> ranks = nullptr);

  // The same with a model and data of one's own. Of the options, [model] and what [data] says of data sets (name, held_out,
  // standardize, random_labels) are not read, and config.toml does not hold them.
  Trainer(const RunOptions& options, TrainerParts parts, const std::filesystem::path& folder,
          const TrainListener& listener = {}, std::shared_ptr<Ranks> ranks = nullptr);
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  // A run that goes on from its newest whole checkpoint, on the recipe's device where one is given. Throws InputError,
  // naming the keys, where the recipe is not the run's.
  static std::unique_ptr<Trainer> resume(const std::filesystem::path& folder,
                                         const TrainListener& listener = {},
                                         const std::optional<RunOptions>& recipe = std::nullopt,
                                         std::shared_ptr<Ranks> ranks = nullptr);

  // The same for a run with a model and data of one's own: made as they were when it began. Its weights come from the checkpoint.
  static std::unique_ptr<Trainer> resume(const std::filesystem::path& folder, TrainerParts parts,
                                         const TrainListener& listener = {},
                                         std::shared_ptr<Ranks> ranks = nullptr);

  // To the last step, or until `stop` becomes true; saves before it returns. A step that is not over when `stop` becomes true
  // ends after the batch at work and is dropped: the resumed run begins it again.
  TrainSummary run(const std::atomic<bool>* stop = nullptr);

  const Model& model() const;
  const RunOptions& options() const;  // resolved

 private:
  explicit Trainer(std::unique_ptr<TrainingRun> run);
  std::unique_ptr<TrainingRun> run_;
};

}  // namespace bridle
