// A run at work: the loop around train_step_, and when it logs, evaluates, saves and ends. Its folder is docs/reference/training.md's.
#pragma once

#include <atomic>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "base/files.h"
#include "base/stopwatch.h"
#include "bridle/train.h"
#include "io/metrics.h"
#include "train/train_state.h"

namespace bridle {

class TrainingRun {
 public:
  struct Setup {
    RunOptions options;  // resolved
    TrainerParts parts;
    std::filesystem::path folder;
    std::string config;  // the text of config.toml
    TrainListener listener;
    std::shared_ptr<Ranks> ranks = nullptr;  // null: alone
  };
  explicit TrainingRun(Setup setup);

  // Of several ranks all call these together, and the one that leads does what is about the folder.
  void lock();   // one run at a time; throws InputError where another process works on it
  void begin();  // at step 0, once the weights are inside their caps and config.toml is there
  bool go_on();  // from the newest whole checkpoint; false where there is none
  TrainSummary run(const std::atomic<bool>* stop);

  TrainState& state() { return state_; }

 private:
  std::optional<Checkpoint> checkpoint_to_go_on_from();
  void train(const std::atomic<bool>* stop);
  void evaluate_or_save_where_due();
  void finish(bool complete);
  void summarize();

  void save_checkpoint();
  void save_stopped();
  void write_result(const std::optional<CertifiedBound>& bound);
  bool keeps_budget() const;       // the bound in the summary does
  bool certificate_holds() const;  // of the folder's files as they are

  EvaluationResult measure();  // validation, and the bound of the weights as they are, into the summary
  EvaluationResult validation_result() const;
  void add_sinks();
  void record(const MetricRecord& record);
  void note(const std::string& text) const;
  void note_plain_operators() const;
  double seconds() const { return seconds_before_ + timer_.seconds(); }
  bool leads() const { return state_.exchange->ranks().leads(); }
  bool due(int64_t every) const { return every > 0 && state_.step % every == 0; }

  TrainState state_;
  std::shared_ptr<const Source> validation_;
  std::filesystem::path folder_;
  std::string config_;
  TrainListener listener_;
  std::unique_ptr<FileLock> lock_;
  std::unique_ptr<JsonLines> lines_;
  std::optional<int64_t> last_checkpoint_;  // the step of the one that was written, or gone on from
  double seconds_before_ = 0.0;             // trained before the last resume
  Timer timer_;
  bool told_no_bound_ = false;
  TrainSummary summary_;
};

}  // namespace bridle
