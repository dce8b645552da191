#include "train/train_state.h"

#include <ATen/Parallel.h>
#include <ATen/ops/tensor.h>
#include <fmt/format.h>

#include "base/available_memory.h"
#include "bridle/error.h"
#include "dist/gather.h"
#include "dist/owners.h"
#include "io/model_folder.h"
#include "train/flop_count.h"
#include "train/memory_estimate.h"
#include "train/options.h"

namespace bridle {
namespace {

// The budget's caps become those of the constraints, and steps are relative to them.
void use_caps_(TrainState& state) {
  const std::vector<Param>& params = state.constraints->params();
  std::vector<double> rates;
  for (size_t i = 0; i < params.size(); ++i)
    rates.push_back(is_matrix(params[i].role) ? state.budget->caps[i] : 1.0);
  state.constraints->set_caps(state.budget->caps);
  state.optimizer->set_rate_factors(std::move(rates));
}

at::ScalarType dtype_of(Precision precision) {
  switch (precision) {
    case Precision::float32:
      break;
    case Precision::bfloat16:
      return at::kBFloat16;
  }
  return at::kFloat;
}

}  // namespace

Pass training_pass(const RunOptions& options) {
  return {.dtype = dtype_of(options.training.precision),
          .training = true,
          .margin = options.training.margin,
          .dropout = {.seed = options.training.seed, .stream = Stream::dropout}};
}

double window_share(const TrainingOptions& training, int64_t step) {
  return training.grow_windows ? static_cast<double>(step) / static_cast<double>(training.steps) : 1.0;
}

Pass TrainState::pass() const {
  Pass pass = training_pass(options);
  pass.dropout.step = static_cast<uint64_t>(step);
  pass.window_share = window_share(options.training, step);
  pass.times = times;
  return pass;
}

int64_t TrainState::slices() const { return options.training.accumulate * options.training.slices; }

SliceRange TrainState::own_slices() const {
  return slices_of(slices(), exchange->ranks().rank(), exchange->ranks().size());
}

namespace {

// Each weight belongs to the rank that has least to do so far, by the products of its step and its constraint.
std::vector<int64_t> owners(const RunOptions& options, const std::vector<Param>& params, int64_t ranks) {
  std::vector<double> costs;
  for (const Param& param : params) costs.push_back(owner_flop(options, param));
  return owners_by_cost(costs, ranks);
}

std::unique_ptr<WeightExchange> make_exchange(const TrainState& state, std::shared_ptr<Ranks> ranks) {
  if (!ranks || ranks->size() == 1) return std::make_unique<WeightExchange>();
  WeightExchange::Setup setup{
      .ranks = std::move(ranks), .weights = {}, .owners = {}, .slices = state.slices()};
  const ConstraintSet blocks(state.model->params(), state.options.constraint);
  setup.owners = owners(state.options, blocks.params(), setup.ranks->size());
  for (const Param& param : state.model->params()) setup.weights.push_back(param.tensor);
  return std::make_unique<WeightExchange>(std::move(setup));
}

std::unique_ptr<Loader> make_loader(const TrainState& state, std::shared_ptr<const Source> train) {
  const SliceRange own = state.own_slices();
  return std::make_unique<Loader>(std::move(train),
                                  LoaderOptions{.batch_size = state.options.data.batch_size,
                                                .order = state.options.data.order,
                                                .seed = state.options.training.seed,
                                                .slices = {.per_batch = state.options.training.slices,
                                                           .stride = state.slices(),
                                                           .first = own.first,
                                                           .count = own.count}});
}

// Rank 0 has what all keep of the weights that they own, by name.
std::map<std::string, at::Tensor> gathered(const TrainState& state, std::map<std::string, at::Tensor> own) {
  Ranks& ranks = state.exchange->ranks();
  if (ranks.size() == 1) return own;
  std::map<std::string, at::Tensor> all;
  for (int64_t r = 0; r < ranks.size(); ++r) {
    std::vector<std::string> to(static_cast<size_t>(ranks.size()));
    if (r == ranks.rank()) to[0] = tensors_to_text(own);
    const std::string text = text_from(ranks, r, to);
    if (ranks.leads()) all.merge(tensors_from_text(text));
  }
  return all;
}

// What a rank needs of a checkpoint: the weights, and what is kept of those that it owns.
bool is_for(const TrainState& state, const std::string& name, int64_t rank) {
  if (name.starts_with("model/")) return true;
  const std::string own = name.substr(name.find('/') + 1);
  const std::vector<Param>& params = state.model->params();
  for (size_t i = 0; i < params.size(); ++i)
    if (own == params[i].name || own.starts_with(params[i].name + ".momentum") ||
        own.starts_with(params[i].name + ".second_moment"))
      return state.exchange->owner(i) == rank;
  return false;
}

Checkpoint handed_out(const TrainState& state, const Checkpoint& whole) {
  Ranks& ranks = state.exchange->ranks();
  std::vector<std::string> to(static_cast<size_t>(ranks.size()));
  for (int64_t r = 0; r < ranks.size() && ranks.leads(); ++r) {
    std::map<std::string, at::Tensor> part{
        {"facts", at::tensor({whole.step, whole.loader_position, whole.repairs}, at::kLong)}};
    for (const auto& [name, tensor] : whole.tensors.tensors)
      if (is_for(state, name, r)) part.emplace(name, tensor);
    to[static_cast<size_t>(r)] = tensors_to_text(part);
  }
  Checkpoint own;
  for (const auto& [name, tensor] : tensors_from_text(text_from(ranks, 0, to))) {
    if (name != "facts") {
      own.tensors.tensors.emplace_back(name, tensor);
      continue;
    }
    own.step = tensor[0].item<int64_t>();
    own.loader_position = tensor[1].item<int64_t>();
    own.repairs = tensor[2].item<int64_t>();
  }
  return own;
}

}  // namespace

std::unique_ptr<Model> make_recipe_model(const RunOptions& options) {
  if (const auto available = available_memory(); available && options.device.is_cpu())
    check_memory(options, at::get_num_threads(), *available);
  return make_model(options.model.options(), options.training.seed, options.device);
}

TrainState make_train_state(const RunOptions& options, std::unique_ptr<Model> model,
                            std::shared_ptr<const Source> train, std::shared_ptr<Ranks> ranks) {
  TrainState state;
  state.options = options;
  if (options.training.precision == Precision::bfloat16) {
    state.options.optimizer.product_dtype = at::kBFloat16;
    if (options.constraint.lipschitz ==
        0.0)  // a budget's caps are too dear to leave room for coarse products
      state.options.constraint.options.product_dtype = at::kBFloat16;
  }
  state.model = std::move(model);
  state.exchange = make_exchange(state, std::move(ranks));
  const OwnedWeights owned = state.exchange->owned();
  state.constraints = std::make_unique<ConstraintSet>(state.model->params(), state.options.constraint, owned);
  const std::vector<Param>& params = state.constraints->params();
  state.optimizer = std::make_unique<Optimizer>(params, state.options.optimizer, owned);
  const ConstraintSettings& constraint = options.constraint;
  if (constraint.lipschitz != 0.0) {
    state.budget = budget_for(*state.model, params,
                              {.lipschitz = constraint.lipschitz,
                               .papers = constraint.formula == BoundFormula::paper,
                               .embedding_cap = constraint.embedding_cap});
    use_caps_(state);
  }
  state.loader = make_loader(state, std::move(train));
  return state;
}

void start_(TrainState& state) {
  state.constraints->start_();
  state.exchange->share_weights_();
}

Checkpoint checkpoint_of(const TrainState& state) {
  Checkpoint checkpoint{.step = state.step,
                        .loader_position = state.step * state.options.training.accumulate,
                        .repairs = state.constraints->repairs()};
  auto& tensors = checkpoint.tensors.tensors;
  for (const Param& param : state.model->params())
    tensors.emplace_back("model/" + param.name, param.tensor.detach());
  const auto add = [&tensors](const std::string& part, const std::map<std::string, at::Tensor>& kept) {
    for (const auto& [name, tensor] : kept) tensors.emplace_back(part + name, tensor);
  };
  add("optimizer/", gathered(state, state.optimizer->state()));
  add("constraint/", gathered(state, state.constraints->state()));
  for (const auto& [name, tensor] : tensors) {
    if (!tensor.isfinite().all().item<bool>())
      throw NumericError("train", fmt::format("{} is not finite at step {}; the last good checkpoint is kept",
                                              name, state.step));
  }
  return checkpoint;
}

void restore_(TrainState& state, const Checkpoint& whole) {
  const Checkpoint checkpoint = state.exchange->is_alone() ? whole : handed_out(state, whole);
  std::vector<std::pair<std::string, at::Tensor>> weights;
  std::map<std::string, std::map<std::string, at::Tensor>> parts;
  for (const auto& [name, tensor] : checkpoint.tensors.tensors) {
    const size_t slash = name.find('/');
    const std::string part = name.substr(0, slash), own = name.substr(slash + 1);
    if (part == "model")
      weights.emplace_back(own, tensor);
    else
      parts[part][own] = tensor;
  }
  load_weights_(*state.model, weights, "checkpoint");
  state.optimizer->set_state(parts["optimizer"]);
  state.constraints->set_state(parts["constraint"], checkpoint.repairs);
  if (state.budget && !state.constraints->all_proved())
    throw InputError("train", "the checkpoint's weights are outside its caps: it is damaged");
  state.loader->seek(checkpoint.loader_position / state.options.training.accumulate *
                     state.own_slices().count);
  state.step = checkpoint.step;
}

void prove_and_repair_(TrainState& state) {
  state.constraints->prove_and_repair_();
  state.exchange->share_weights_();
}

BatchShape batch_shape(const RunOptions& options, InputKind input) {
  return {.size = options.data.batch_size,
          .length = input == InputKind::tokens ? options.data.sequence_length : 1};
}

int64_t examples_per_step(const RunOptions& options, InputKind input) {
  const BatchShape batch = batch_shape(options, input);
  return options.training.accumulate * batch.size * batch.length;
}

}  // namespace bridle
