// See fused_model.h.
#include "nn/fused_model.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <stdexcept>
#include <utility>

namespace bridle {
namespace {

constexpr int64_t kOwnTokens = 512;  // of a group that one thread works on: its activations stay near
constexpr int64_t kSharedTokens =
    4096;                            // of a group that all work on: as many for each reading of large weights
constexpr int64_t kLeastGroups = 8;  // so that no thread waits long for the last one
constexpr int64_t kSlots = 4;
constexpr int64_t kMostSums = int64_t{64} << 20U;  // bytes of a slot; above, one slot has to do

}  // namespace

// An allow-list over every field of the options and of the pass: a new one does not compile until someone has said here what
// the fused pass makes of it.
std::string FusedModel::why_not(const TransformerOptions& options, const Pass& pass) {
  const auto& [vocab_size, real_vocab_size, hidden_size, num_hidden_layers, num_attention_heads,
               num_key_value_heads, intermediate_size, max_position_embeddings, positions, rope_theta,
               activation, activation_divisor, softmax_scale, attention_output_scale, residual,
               attention_alpha, mlp_alpha, position_bias, position_bias_offsets, position_bias_start,
               position_bias_dilation, logit_bias, norm, norm_epsilon, learnable_scales, bias, tie_embeddings,
               dropout, initialization, final_scale] = options;
  const auto& [dtype, training, margin, dropout_key, statistics, dropout_calls, times, cache] = pass;
  const bool known_activation = activation == ActivationKind::gelu ||
                                activation == ActivationKind::gelu_tanh || activation == ActivationKind::relu;
  const bool known_positions = positions == PositionKind::rope || positions == PositionKind::learned ||
                               positions == PositionKind::none;
  const bool known_residual = residual == ResidualKind::convex || residual == ResidualKind::plain;
  const std::pair<bool, const char*> obstacles[] = {
      {dtype != at::kBFloat16, "training.precision is not bfloat16"},
      {statistics != nullptr, "statistics of activations are recorded"},
      {cache != nullptr, "keys and values are kept"},
      {margin != 0.0, "training.margin is not 0"},
      {training && dropout != 0.0, "model.dropout is not 0"},
      {!known_activation, "model.hidden_act has no fused form"},
      {!known_positions, "model.positions has no fused form"},
      {!known_residual, "model.residual has no fused form"},
      {num_key_value_heads != num_attention_heads,
       "model.num_key_value_heads is not model.num_attention_heads"},
      {norm != NormLayer::none, "model.norm is not none"},
      {learnable_scales, "model.learnable_scales is true"},
      {bias, "model.bias is true"},
      {tie_embeddings, "model.tie_embeddings is true"}};
  for (const auto& [is_there, what] : obstacles)
    if (is_there) return what;
  return {};
}

FusedModel::FusedModel(const TransformerOptions& model_options, const std::vector<Param>& model_params,
                       const StepKernels& step_kernels)
    : options(model_options),
      params(model_params),
      kernels(step_kernels),
      size(padded(options.hidden_size)),
      inner(padded(options.intermediate_size)),
      classes(padded(options.real_vocab_size)),
      head_size(options.hidden_size / options.num_attention_heads),
      attention_scale(static_cast<float>(options.softmax_scale / static_cast<double>(head_size))) {
  if (const std::string why = why_not(options, {.dtype = at::kBFloat16}); !why.empty())
    throw std::logic_error("there is no fused pass: " + why);
  std::map<Role, std::vector<size_t>> places;  // those of all layers in their order
  for (size_t i = 0; i < params.size(); ++i) places[params[i].role].push_back(i);
  const auto tensor = [&](size_t place) { return params[place].tensor; };
  for (size_t i = 0; i < static_cast<size_t>(options.num_hidden_layers); ++i) {
    const auto place = [&](Role role) { return places.at(role).at(i); };
    const std::vector<size_t> qkv = {place(Role::query), place(Role::key), place(Role::value)};
    const size_t output = place(Role::attention_output);
    const size_t up = place(Role::mlp_up), down = place(Role::mlp_down);
    layers.push_back({FusedWeight({tensor(qkv[0]), tensor(qkv[1]), tensor(qkv[2])}, FusedWeight::Left::in),
                      FusedWeight({tensor(output)}, FusedWeight::Left::out),
                      FusedWeight({tensor(up)}, FusedWeight::Left::in),
                      FusedWeight({tensor(down)}, FusedWeight::Left::out), qkv, output, up, down,
                      options.position_bias ? std::optional(place(Role::position_bias)) : std::nullopt});
  }
  const auto only = [&](Role role) { return places.at(role).front(); };
  embedding_param = only(Role::embedding);
  head_param = only(Role::head);
  head.emplace(std::vector{tensor(head_param)}, FusedWeight::Left::in, options.real_vocab_size);
  if (options.positions == PositionKind::learned) positions_param = only(Role::position_embedding);
  if (options.logit_bias) {
    logit_bias_param = only(Role::logit_bias);
    logit_bias.assign(static_cast<size_t>(classes), 0.0F);
  }
  int64_t bytes = 0;
  for (const FusedWeight* weight : weights()) bytes += weight->bytes();
  packed_.reserve(bytes);
  for (FusedLayer& layer : layers)
    for (FusedWeight* weight : {&layer.qkv, &layer.output, &layer.up, &layer.down}) weight->take(packed_);
  head->take(packed_);
}

std::vector<const FusedWeight*> FusedModel::weights() const {
  std::vector<const FusedWeight*> all;
  for (const FusedLayer& layer : layers)
    for (const FusedWeight* weight : {&layer.qkv, &layer.output, &layer.up, &layer.down})
      all.push_back(weight);
  all.push_back(&*head);
  return all;
}

std::vector<int64_t> FusedShape::bounds() const {
  constexpr int64_t shares = 4;  // of what is left, at most one of them at a time
  std::vector<int64_t> all = {0};
  while (all.back() < batch) {
    const int64_t left = batch - all.back();
    all.push_back(all.back() + std::min(left, shared ? group : std::clamp<int64_t>(left / shares, 1, group)));
  }
  return all;
}

FusedShape FusedModel::shape_of(int64_t batch, int64_t length) const {
  int64_t sums = options.vocab_size * size;
  for (const FusedWeight* weight : weights()) sums += weight->sums();
  FusedShape shape{.batch = batch, .length = length, .rows = padded(length)};
  shape.group = std::clamp<int64_t>(kOwnTokens / shape.rows, 1, std::max<int64_t>(1, batch / kLeastGroups));
  shape.shared = sums * int64_t{sizeof(float)} > kMostSums || batch < kSlots * shape.group;
  if (shape.shared) shape.group = std::clamp<int64_t>(kSharedTokens / shape.rows, 1, batch);
  shape.slots = shape.shared ? 1 : kSlots;
  return shape;
}

void FusedModel::set_length(int64_t new_rows) {
  if (rows == new_rows) return;
  rows = new_rows;
  if (options.position_bias)
    bias.assign(static_cast<size_t>(options.num_hidden_layers * options.num_attention_heads * 2 * rows),
                0.0F);
  if (options.positions != PositionKind::rope) return;
  const int64_t half = head_size / 2;
  cosine.resize(static_cast<size_t>(rows * half));
  sine.resize(static_cast<size_t>(rows * half));
  for (int64_t t = 0; t < rows; ++t) {
    for (int64_t i = 0; i < half; ++i) {
      const double angle =
          static_cast<double>(t) *
          std::pow(options.rope_theta, -2.0 * static_cast<double>(i) / static_cast<double>(head_size));
      cosine[static_cast<size_t>(t * half + i)] = static_cast<float>(std::cos(angle));
      sine[static_cast<size_t>(t * half + i)] = static_cast<float>(std::sin(angle));
    }
  }
}

void FusedModel::pack(const Team& team) {
  std::vector<std::pair<const FusedWeight*, int64_t>> pieces;
  for (const FusedWeight* weight : weights())
    for (int64_t piece = 0; piece < weight->pack_pieces(); ++piece) pieces.emplace_back(weight, piece);
  constexpr int64_t together = 16;  // a thread's share is worth its waking up
  const auto count = static_cast<int64_t>(pieces.size());
  team.each((count + together - 1) / together, [&](int64_t item, int) {
    for (int64_t i = item * together; i < std::min(count, (item + 1) * together); ++i)
      pieces[static_cast<size_t>(i)].first->pack_piece(pieces[static_cast<size_t>(i)].second, kernels);
  });
  if (logit_bias_param) {
    const at::Tensor values = params[*logit_bias_param].tensor.detach().contiguous();
    std::copy_n(static_cast<const float*>(values.data_ptr()), values.numel(), logit_bias.begin());
  }
  for (size_t layer = 0; layer < layers.size() && !bias.empty(); ++layer) {
    const at::Tensor table = params[*layers[layer].bias_param].tensor.detach().contiguous();
    const int64_t offsets = table.size(1);
    for (int64_t h = 0; h < options.num_attention_heads; ++h) {
      const float* from = static_cast<const float*>(table.data_ptr()) + h * offsets;
      float* to = bias.data() + bias_at(layer, h);
      for (int64_t offset = 0; offset < rows; ++offset)
        to[rows - 1 - offset] = from[std::min(offset, offsets - 1)];
    }
  }
}

}  // namespace bridle
