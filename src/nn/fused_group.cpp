// See fused_group.h.
#include "nn/fused_group.h"

#include <algorithm>
#include <chrono>
#include <cstring>

namespace bridle {
namespace {

constexpr int64_t kBlock = amx::kBlock;
constexpr int64_t kStridePadding = 32;    // so that rows do not all fall into the same sets of a cache
constexpr int64_t kTileRows = 64;         // that go through several layers while they are in the cache
constexpr int64_t kPartRows = 256;        // of a product that a member takes at once
constexpr int64_t kChunkBytes = 1 << 20;  // of packed weights, read again for every part: half of an L2 cache
constexpr int64_t kGradientDepth = 1024;  // rows that a weight's gradient adds up at once
constexpr int64_t kLogitElements = 1 << 26;  // of a chunk of logits

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

int64_t logit_rows(const FusedModel& model, int64_t tokens) {
  const int64_t most = std::max(kGradientDepth, kLogitElements / model.classes / kPartRows * kPartRows);
  return std::min(tokens, most);
}

}  // namespace

FusedSums::FusedSums(const FusedModel& model, int64_t rows) : rows_(rows) {
  const int64_t bias_size = static_cast<int64_t>(model.bias.size());
  int64_t bytes = Arena::size_of<float>(model.options.vocab_size * model.size) +
                  Arena::size_of<float>(bias_size) + Arena::size_of<float>(rows * model.size);
  for (const FusedWeight* weight : model.weights()) bytes += Arena::size_of<float>(weight->sums());
  memory_.reserve(bytes);
  for (const FusedWeight* weight : model.weights()) matrices.push_back(memory_.take<float>(weight->sums()));
  embedding = memory_.take<float>(model.options.vocab_size * model.size);
  if (model.positions_param) positions = memory_.take<float>(rows * model.size);
  if (bias_size > 0) bias = memory_.take<float>(bias_size);
}

void FusedSums::start(const FusedModel& model) {
  empty = true;
  std::fill_n(embedding, model.options.vocab_size * model.size, 0.0F);
  if (positions != nullptr) std::fill_n(positions, rows_ * model.size, 0.0F);
  if (bias != nullptr) std::fill_n(bias, model.bias.size(), 0.0F);
}

template <class Visit>
void FusedGroup::visit_memory(const Visit& visit) {
  const int64_t rows = shape_.group * shape_.rows;
  const auto matrix = [&](Matrix& m, int64_t columns, int64_t count) {
    m.columns = columns;
    m.stride = columns + kStridePadding;
    visit(m.data, count * m.stride);
  };
  for (Layer& layer : layers_) {
    matrix(layer.in, model_.size, rows);
    matrix(layer.qkv, 3 * model_.size, rows);
    matrix(layer.heads, model_.size, rows);
    matrix(layer.middle, model_.size, rows);
    matrix(layer.active, model_.inner, rows);
    matrix(layer.slope, model_.inner, rows);
    visit(layer.log_sums, rows * model_.options.num_attention_heads);
  }
  for (Matrix* m : {&last_, &d_out_, &d_middle_, &d_heads_}) matrix(*m, model_.size, rows);
  matrix(d_active_, model_.inner, rows);
  matrix(d_qkv_, 3 * model_.size, rows);
  visit(stream_, rows * model_.size);
  matrix(d_logits_, model_.classes, logit_rows(model_, rows));
  visit(logits_, logit_rows(model_, rows) * model_.classes);
  visit(packed_left_, packed_size(model_.size, kGradientDepth));
  for (int member = 0; member < team_.threads(); ++member) {
    visit(packed_right_[static_cast<size_t>(member)], packed_size(kGradientColumns, kGradientDepth));
    auto* scratch = static_cast<std::byte*>(attention_scratch_[static_cast<size_t>(member)]);
    visit(scratch, bridle::attention_scratch(shape_.rows, model_.head_size));
    attention_scratch_[static_cast<size_t>(member)] = scratch;
  }
}

FusedGroup::FusedGroup(const FusedModel& model, const FusedShape& shape, Team team)
    : model_(model), shape_(shape), team_(team), layers_(model.layers.size()) {
  packed_right_.resize(static_cast<size_t>(team.threads()));
  attention_scratch_.resize(static_cast<size_t>(team.threads()));
  int64_t bytes = 0;
  visit_memory([&]<class T>(T*&, int64_t count) { bytes += Arena::size_of<T>(count); });
  memory_.reserve(bytes);
  visit_memory([&]<class T>(T*& place, int64_t count) { place = memory_.take<T>(count); });
}

// Rows [first, first + rows) of left times the weight, in chunks of columns that stay in a cache.
void FusedGroup::linear(const FusedWeight& weight, Way way, const Matrix& left, LinearTask task,
                        int64_t first, int64_t rows) const {
  const int64_t depth = way == Way::forward ? weight.in() : weight.out();
  const int64_t blocks = (way == Way::forward ? weight.out() : weight.in()) / kBlock;
  const int64_t chunk = std::clamp<int64_t>(kChunkBytes / (2 * depth * kBlock), 1, blocks);
  const int64_t parts = (rows + kPartRows - 1) / kPartRows;
  task.right = way == Way::forward ? weight.forward() : weight.backward();
  task.steps = depth / amx::kStep;
  task.left_stride = left.stride;
  team_.each(parts * ((blocks + chunk - 1) / chunk), [&](int64_t item, int) {
    LinearTask part = task;
    const int64_t row = first + item % parts * kPartRows;
    part.rows = std::min(kPartRows, first + rows - row);
    part.left = left.row(row);
    part.first_block = item / parts * chunk;
    part.end_block = std::min(blocks, part.first_block + chunk);
    if (task.out != nullptr) part.out = task.out + row * task.out_stride;
    if (task.slope != nullptr) part.slope = task.slope + row * task.out_stride;
    if (task.stream != nullptr) part.stream = task.stream + row * task.stream_stride;
    model_.kernels.linear(part);
  });
}

// out (+)= leftᵀ·right over the first so many rows.
void FusedGroup::add_gradient(const Matrix& left, const Matrix& right, int64_t rows, float* out,
                              bool add) const {
  const int64_t left_blocks = left.columns / kBlock;
  for (int64_t top = 0; top < rows; top += kGradientDepth) {
    const int64_t depth = std::min(kGradientDepth, rows - top), steps = depth / amx::kStep;
    const amx::Factor factor{left.row(top), amx::Element::bfloat16, false, left.columns, depth, left.stride};
    team_.each(left_blocks, [&](int64_t i, int) {
      model_.kernels.pack(factor, amx::Side::left, i * kBlock, 0, steps,
                          packed_left_ + i * steps * amx::kPairsPerStep);
    });
    team_.each((right.columns + kGradientColumns - 1) / kGradientColumns, [&](int64_t chunk, int member) {
      const int64_t column = chunk * kGradientColumns;
      model_.kernels.add_gradient({.left = packed_left_,
                                   .left_blocks = left_blocks,
                                   .right = right.row(top) + column,
                                   .right_stride = right.stride,
                                   .right_columns = std::min(kGradientColumns, right.columns - column),
                                   .depth = depth,
                                   .add = add || top > 0,
                                   .out = out + column * left.columns,
                                   .scratch = packed_right_[static_cast<size_t>(member)]});
    });
  }
}

// A team of one takes few rows at a time, so that what one product writes the next one finds in the cache.
template <class Tile>
void FusedGroup::each_tile(const Tile& tile) const {
  const int64_t rows = !shape_.shared ? kTileRows : tokens();
  for (int64_t first = 0; first < tokens(); first += rows) tile(first, std::min(rows, tokens() - first));
}

void FusedGroup::embed(const int64_t* tokens) {
  const at::Tensor& table = model_.params[model_.embedding_param].tensor;
  const auto* rows = static_cast<const float*>(table.data_ptr());
  const float* positions = nullptr;
  if (model_.positions_param)
    positions = static_cast<const float*>(model_.params[*model_.positions_param].tensor.data_ptr());
  const int64_t size = model_.options.hidden_size;
  team_.each(count_, [&](int64_t sequence, int) {
    for (int64_t t = 0; t < shape_.rows; ++t) {
      float* x = stream_ + (sequence * shape_.rows + t) * model_.size;
      std::fill_n(x, model_.size, 0.0F);
      if (t >= shape_.length) continue;
      std::copy_n(rows + tokens[sequence * shape_.length + t] * size, size, x);
      for (int64_t i = 0; i < size && positions != nullptr; ++i) x[i] += positions[t * size + i];
    }
    const int64_t row = sequence * shape_.rows;
    model_.kernels.narrow(stream_ + row * model_.size, model_.size, shape_.rows, layers_.front().in.row(row),
                          layers_.front().in.stride);
  });
}

void FusedGroup::turn(const Matrix& qkv, int64_t first, int64_t rows, float direction) {
  if (model_.cosine.empty()) return;
  for (int64_t row = first; row < first + rows;) {
    const int64_t position = row % shape_.rows, part = std::min(first + rows - row, shape_.rows - position);
    for (const int64_t column : {int64_t{0}, model_.size})
      model_.kernels.rope({.data = qkv.row(row) + column,
                           .stride = qkv.stride,
                           .rows = part,
                           .heads = model_.options.num_attention_heads,
                           .head_size = model_.head_size,
                           .cosine = model_.cosine.data() + position * model_.head_size / 2,
                           .sine = model_.sine.data() + position * model_.head_size / 2,
                           .direction = direction});
    row += part;
  }
}

void FusedGroup::project(size_t index, int64_t first, int64_t rows) {
  const Layer& layer = layers_[index];
  linear(model_.layers[index].qkv, Way::forward, layer.in,
         {.out = layer.qkv.data, .out_stride = layer.qkv.stride}, first, rows);
  team_.each((rows + kPartRows - 1) / kPartRows, [&](int64_t part, int) {
    const int64_t row = first + part * kPartRows;
    turn(layer.qkv, row, std::min(kPartRows, first + rows - row), 1.0F);
  });
}

AttentionTask FusedGroup::attention_task(size_t index, int64_t sequence, int64_t head) const {
  const Layer& layer = layers_[index];
  const int64_t row = sequence * shape_.rows, column = head * model_.head_size;
  const Bfloat16* q = layer.qkv.row(row) + column;
  return {.rows = shape_.rows,
          .head_size = model_.head_size,
          .scale = model_.attention_scale,
          .q = q,
          .k = q + model_.size,
          .v = q + 2 * model_.size,
          .stride = layer.qkv.stride,
          .out = layer.heads.row(row) + column,
          .out_stride = layer.heads.stride,
          .log_sums = layer.log_sums + row * model_.options.num_attention_heads + head * shape_.rows,
          .bias = model_.bias_of(index, head)};
}

void FusedGroup::through_layers() {
  const ModelOptions& options = model_.options;
  const auto residual = [&](const Matrix& out, double alpha, double scale) {
    return LinearTask{.epilogue = Epilogue::residual,
                      .factor = model_.share(alpha) * static_cast<float>(scale),
                      .out = out.data,
                      .out_stride = out.stride,
                      .stream = stream_,
                      .stream_stride = model_.size,
                      .keep = model_.keep(alpha)};
  };
  each_tile([&](int64_t first, int64_t rows) { project(0, first, rows); });
  for (size_t i = 0; i < layers_.size(); ++i) {
    const Layer& layer = layers_[i];
    const FusedLayer& weights = model_.layers[i];
    const Matrix& next = i + 1 < layers_.size() ? layers_[i + 1].in : last_;
    team_.each(count_ * options.num_attention_heads, [&](int64_t item, int member) {
      AttentionTask task =
          attention_task(i, item / options.num_attention_heads, item % options.num_attention_heads);
      task.scratch = attention_scratch_[static_cast<size_t>(member)];
      model_.kernels.attend(task);
    });
    each_tile([&](int64_t first, int64_t rows) {
      linear(weights.output, Way::forward, layer.heads,
             residual(layer.middle, options.attention_alpha, options.attention_output_scale), first, rows);
      linear(weights.up, Way::forward, layer.middle,
             {.epilogue = Epilogue::activate,
              .out = layer.active.data,
              .slope = layer.slope.data,
              .out_stride = layer.active.stride,
              .activation = model_.activation,
              .divisor = static_cast<float>(options.activation_divisor)},
             first, rows);
      linear(weights.down, Way::forward, layer.active, residual(next, options.mlp_alpha, 1.0), first, rows);
      if (i + 1 < layers_.size()) project(i + 1, first, rows);
    });
  }
}

// Logits, loss and, where sums are given, the head's gradient and that of its input.
FusedGroup::Loss FusedGroup::loss(const int64_t* targets, FusedSums* sums) {
  Loss total;
  const auto scale = static_cast<float>(model_.options.final_scale);
  const int64_t chunk = logit_rows(model_, tokens());
  for (int64_t top = 0; top < tokens(); top += chunk) {
    const int64_t rows = std::min(chunk, tokens() - top);
    const Matrix seen{last_.row(top), last_.columns, last_.stride};
    linear(
        *model_.head, Way::forward, seen,
        {.epilogue = Epilogue::logits, .factor = scale, .stream = logits_, .stream_stride = model_.classes},
        0, rows);
    std::vector<LossTask> tasks;
    for (int64_t row = top; row < top + rows; row += kBlock) {
      const int64_t sequence = row / shape_.rows, position = row % shape_.rows;
      tasks.push_back({.logits = logits_ + (row - top) * model_.classes,
                       .stride = model_.classes,
                       .rows = kBlock,
                       .tokens = std::clamp<int64_t>(shape_.length - position, 0, kBlock),
                       .classes = model_.options.real_vocab_size,
                       .columns = model_.classes,
                       .targets = targets + sequence * shape_.length + position,
                       .gradient = sums == nullptr ? nullptr : d_logits_.row(row - top),
                       .gradient_stride = d_logits_.stride});
    }
    team_.each(static_cast<int64_t>(tasks.size()),
               [&](int64_t i, int) { model_.kernels.cross_entropy(tasks[static_cast<size_t>(i)]); });
    for (const LossTask& task : tasks) {
      total.loss += task.loss;
      total.hits += task.hits;
    }
    if (sums == nullptr) continue;
    const LinearTask back{.epilogue = Epilogue::residual,
                          .factor = scale,
                          .out = d_out_.row(top),
                          .out_stride = d_out_.stride,
                          .stream = stream_ + top * model_.size,
                          .stream_stride = model_.size};
    linear(*model_.head, Way::backward, d_logits_, back, 0, rows);
    add_gradient(seen, d_logits_, rows, sums->matrices.back(), !sums->empty || top > 0);
  }
  return total;
}

// From the gradient of a layer's output to that of the input of its feed-forward branch, and to that of its heads.
void FusedGroup::back_through_branches(size_t index) {
  const ModelOptions& options = model_.options;
  const Layer& layer = layers_[index];
  const FusedLayer& weights = model_.layers[index];
  each_tile([&](int64_t first, int64_t rows) {
    linear(weights.down, Way::backward, d_out_,
           {.epilogue = Epilogue::times,
            .factor = model_.share(options.mlp_alpha),
            .out = d_active_.data,
            .slope = layer.slope.data,
            .out_stride = d_active_.stride},
           first, rows);
    linear(weights.up, Way::backward, d_active_,
           {.epilogue = Epilogue::residual,
            .out = d_middle_.data,
            .out_stride = d_middle_.stride,
            .stream = stream_,
            .stream_stride = model_.size,
            .keep = model_.keep(options.mlp_alpha)},
           first, rows);
    linear(
        weights.output, Way::backward, d_middle_,
        {.factor = model_.share(options.attention_alpha) * static_cast<float>(options.attention_output_scale),
         .out = d_heads_.data,
         .out_stride = d_heads_.stride},
        first, rows);
  });
}

// Members take whole heads, so that the position bias of a head is added up in one order.
void FusedGroup::back_through_attention(size_t index, FusedSums& sums) {
  const ModelOptions& options = model_.options;
  team_.each(options.num_attention_heads, [&](int64_t head, int member) {
    for (int64_t sequence = 0; sequence < count_; ++sequence) {
      AttentionTask task = attention_task(index, sequence, head);
      const int64_t row = sequence * shape_.rows, column = head * model_.head_size;
      task.d_out = d_heads_.row(row) + column;
      task.dq = d_qkv_.row(row) + column;
      task.dk = task.dq + model_.size;
      task.dv = task.dk + model_.size;
      if (sums.bias != nullptr) task.d_bias = sums.bias + model_.bias_at(index, head);
      task.scratch = attention_scratch_[static_cast<size_t>(member)];
      model_.kernels.attend_backward(task);
    }
  });
  each_tile([&](int64_t first, int64_t rows) {
    team_.each((rows + kPartRows - 1) / kPartRows, [&](int64_t part, int) {
      const int64_t row = first + part * kPartRows;
      turn(d_qkv_, row, std::min(kPartRows, first + rows - row), -1.0F);
    });
    linear(model_.layers[index].qkv, Way::backward, d_qkv_,
           {.epilogue = Epilogue::residual,
            .out = d_out_.data,
            .out_stride = d_out_.stride,
            .stream = stream_,
            .stream_stride = model_.size,
            .keep = model_.keep(options.attention_alpha)},
           first, rows);
  });
}

void FusedGroup::back_through_layers(FusedSums& sums) {
  for (size_t i = layers_.size(); i-- > 0;) {
    const Layer& layer = layers_[i];
    float* const* out = sums.matrices.data() + 4 * i;  // qkv, output, up, down
    back_through_branches(i);
    add_gradient(d_out_, layer.active, tokens(), out[3], !sums.empty);
    add_gradient(layer.middle, d_active_, tokens(), out[2], !sums.empty);
    back_through_attention(i, sums);
    add_gradient(d_middle_, layer.heads, tokens(), out[1], !sums.empty);
    add_gradient(layer.in, d_qkv_, tokens(), out[0], !sums.empty);
  }
}

// In the order of the tokens; members take columns.
void FusedGroup::add_embedding_gradients(const int64_t* tokens, FusedSums& sums) const {
  const int64_t parts = model_.size / kBlock;
  team_.each(team_.threads() == 1 ? 1 : parts, [&](int64_t part, int) {
    const int64_t begin = part * kBlock, end = team_.threads() == 1 ? model_.size : begin + kBlock;
    for (int64_t sequence = 0; sequence < count_; ++sequence) {
      for (int64_t t = 0; t < shape_.length; ++t) {
        const float* gradient = stream_ + (sequence * shape_.rows + t) * model_.size;
        float* row = sums.embedding + tokens[sequence * shape_.length + t] * model_.size;
        for (int64_t i = begin; i < end; ++i) row[i] += gradient[i];
        if (sums.positions == nullptr) continue;
        for (int64_t i = begin; i < end; ++i) sums.positions[t * model_.size + i] += gradient[i];
      }
    }
  });
}

FusedGroup::Loss FusedGroup::forward(const int64_t* tokens, const int64_t* targets, int64_t count) {
  count_ = count;
  embed(tokens);
  through_layers();
  return loss(targets, nullptr);
}

FusedGroup::Loss FusedGroup::forward_and_backward(const int64_t* tokens, const int64_t* targets,
                                                  int64_t count, FusedSums& sums) {
  const auto start = std::chrono::steady_clock::now();
  count_ = count;
  embed(tokens);
  through_layers();
  const auto middle = std::chrono::steady_clock::now();
  forward_seconds += std::chrono::duration<double>(middle - start).count();
  const Loss result = loss(targets, &sums);
  back_through_layers(sums);
  add_embedding_gradients(tokens, sums);
  sums.empty = false;
  backward_seconds += seconds_since(middle);
  return result;
}

}  // namespace bridle
