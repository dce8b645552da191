// See fused_group.h.
#include "nn/fused_group.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <utility>

namespace bridle {
namespace {

constexpr int64_t kBlock = amx::kBlock;
constexpr int64_t kPartRows = 256;           // of a product that a member takes at once
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
  logit_bias.assign(model.logit_bias.size(), 0.0F);
}

template <class Visit>
void FusedGroup::visit_memory(const Visit& visit) {
  const int64_t rows = shape_.group * shape_.rows;
  const auto matrix = [&](FusedMatrix& m, int64_t columns, int64_t count) {
    m.columns = columns;
    m.stride = FusedMatrix::stride_of(columns);
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
  for (FusedMatrix* m : {&last_, &d_out_, &d_in_, &d_middle_, &d_heads_}) matrix(*m, model_.size, rows);
  matrix(d_active_, model_.inner, rows);
  matrix(d_qkv_, 3 * model_.size, rows);
  visit(stream_, rows * model_.size);
  matrix(d_logits_, model_.classes, logit_rows(model_, rows));
  visit(logits_, logit_rows(model_, rows) * model_.classes);
  for (int member = 0; member < ops_.team().threads(); ++member) {
    auto* scratch = static_cast<std::byte*>(attention_scratch_[static_cast<size_t>(member)]);
    visit(scratch, bridle::attention_scratch(shape_.rows, model_.head_size));
    attention_scratch_[static_cast<size_t>(member)] = scratch;
  }
}

FusedGroup::FusedGroup(const FusedModel& model, const FusedShape& shape, Team team)
    : model_(model), shape_(shape), ops_(model.kernels, team, model.size), layers_(model.layers.size()) {
  attention_scratch_.resize(static_cast<size_t>(team.threads()));
  int64_t bytes = 0;
  visit_memory([&]<class T>(T*&, int64_t count) { bytes += Arena::size_of<T>(count); });
  memory_.reserve(bytes);
  visit_memory([&]<class T>(T*& place, int64_t count) { place = memory_.take<T>(count); });
}

// A thread that has the group for itself takes it a few rows at a time, so that what one kernel writes the next one finds in the
// cache.
template <class Use>
void FusedGroup::each_part(const Use& use) const {
  const int64_t together = shape_.shared ? count_ : std::max<int64_t>(1, kPartRows / shape_.rows);
  for (int64_t sequence = 0; sequence < count_; sequence += together) {
    const int64_t count = std::min(together, count_ - sequence);
    use(Part{sequence, count, sequence * shape_.rows, count * shape_.rows});
  }
}

void FusedGroup::embed(const int64_t* tokens) {
  const at::Tensor& table = model_.params[model_.embedding_param].tensor;
  const auto* rows = static_cast<const float*>(table.data_ptr());
  const float* positions = nullptr;
  if (model_.positions_param)
    positions = static_cast<const float*>(model_.params[*model_.positions_param].tensor.data_ptr());
  const int64_t size = model_.options.hidden_size;
  ops_.team().each(count_, [&](int64_t sequence, int) {
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

void FusedGroup::turn(const FusedMatrix& qkv, int64_t first, int64_t rows, float direction) {
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

void FusedGroup::turn_part(const FusedMatrix& qkv, const Part& part, float direction) {
  ops_.team().each((part.rows + kPartRows - 1) / kPartRows, [&](int64_t i, int) {
    const int64_t row = i * kPartRows;
    turn(qkv, part.first + row, std::min(kPartRows, part.rows - row), direction);
  });
}

void FusedGroup::project(size_t index, const Part& part) {
  const Layer& layer = layers_[index];
  ops_.linear(model_.layers[index].qkv, FusedOps::Way::forward, layer.in,
              {.out = layer.qkv.data, .out_stride = layer.qkv.stride}, part.first, part.rows);
  turn_part(layer.qkv, part, 1.0F);
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

void FusedGroup::attend(size_t index, const Part& part) {
  const int64_t heads = model_.options.num_attention_heads;
  ops_.team().each(part.count * heads, [&](int64_t item, int member) {
    AttentionTask task = attention_task(index, part.sequence + item / heads, item % heads);
    task.scratch = attention_scratch_[static_cast<size_t>(member)];
    model_.kernels.attend(task);
  });
}

// The end of a branch: what it adds to the stream.
LinearTask FusedGroup::residual(const FusedMatrix& out, double alpha, double scale) const {
  return {.epilogue = Epilogue::residual,
          .factor = model_.share(alpha) * static_cast<float>(scale),
          .out = out.data,
          .out_stride = out.stride,
          .stream = stream_,
          .stream_stride = model_.size,
          .keep = model_.keep(alpha)};
}

void FusedGroup::through_layers() {
  const TransformerOptions& options = model_.options;
  each_part([&](const Part& part) { project(0, part); });
  for (size_t i = 0; i < layers_.size(); ++i) {
    const Layer& layer = layers_[i];
    const FusedLayer& weights = model_.layers[i];
    const bool is_last = i + 1 == layers_.size();
    const auto forward = [&](const FusedWeight& weight, const FusedMatrix& left, const LinearTask& task,
                             const Part& part) {
      ops_.linear(weight, FusedOps::Way::forward, left, task, part.first, part.rows);
    };
    each_part([&](const Part& part) {
      attend(i, part);
      forward(weights.output, layer.heads,
              residual(layer.middle, options.attention_alpha, options.attention_output_scale), part);
      forward(weights.up, layer.middle,
              {.epilogue = Epilogue::activate,
               .out = layer.active.data,
               .slope = layer.slope.data,
               .out_stride = layer.active.stride,
               .activation = options.activation,
               .share = static_cast<float>(1.0 / options.activation_divisor)},
              part);
      forward(weights.down, layer.active,
              residual(is_last ? last_ : layers_[i + 1].in, options.mlp_alpha, 1.0), part);
      if (!is_last) project(i + 1, part);
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
    const FusedMatrix seen{last_.row(top), last_.columns, last_.stride};
    ops_.linear(
        *model_.head, FusedOps::Way::forward, seen,
        {.epilogue = Epilogue::logits, .factor = scale, .stream = logits_, .stream_stride = model_.classes},
        0, rows);
    std::vector<LossTask> tasks;
    const size_t biases = model_.logit_bias.size();
    std::vector<float> d_bias;  // of each task, added up in their order
    if (sums != nullptr) d_bias.assign(static_cast<size_t>((rows + kBlock - 1) / kBlock) * biases, 0.0F);
    for (int64_t row = top; row < top + rows; row += kBlock) {
      const int64_t sequence = row / shape_.rows, position = row % shape_.rows;
      tasks.push_back({.logits = logits_ + (row - top) * model_.classes,
                       .stride = model_.classes,
                       .rows = kBlock,
                       .tokens = std::clamp<int64_t>(shape_.length - position, 0, kBlock),
                       .classes = model_.options.real_vocab_size,
                       .columns = model_.classes,
                       .targets = targets + sequence * shape_.length + position,
                       .bias = biases == 0 ? nullptr : model_.logit_bias.data(),
                       .d_bias = d_bias.empty() ? nullptr : d_bias.data() + tasks.size() * biases,
                       .gradient = sums == nullptr ? nullptr : d_logits_.row(row - top),
                       .gradient_stride = d_logits_.stride});
    }
    ops_.team().each(static_cast<int64_t>(tasks.size()),
                     [&](int64_t i, int) { model_.kernels.cross_entropy(tasks[static_cast<size_t>(i)]); });
    for (const LossTask& task : tasks) {
      total.loss += task.loss;
      total.hits += task.hits;
    }
    if (sums == nullptr) continue;
    for (auto from = d_bias.cbegin(); from != d_bias.cend(); from += static_cast<int64_t>(biases))
      std::transform(from, from + static_cast<int64_t>(biases), sums->logit_bias.cbegin(),
                     sums->logit_bias.begin(), std::plus<>());
    const LinearTask back{.epilogue = Epilogue::residual,
                          .factor = scale,
                          .out = d_out_.row(top),
                          .out_stride = d_out_.stride,
                          .stream = stream_ + top * model_.size,
                          .stream_stride = model_.size};
    ops_.linear(*model_.head, FusedOps::Way::backward, d_logits_, back, 0, rows);
    ops_.add_gradient(seen, d_logits_, rows, sums->matrices.back(), !sums->empty || top > 0);
  }
  return total;
}

// Members take whole heads, so that the position bias of a head is added up in one order.
void FusedGroup::attend_backward(size_t index, const Part& part, FusedSums& sums) {
  ops_.team().each(model_.options.num_attention_heads, [&](int64_t head, int member) {
    for (int64_t sequence = part.sequence; sequence < part.sequence + part.count; ++sequence) {
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
}

// From the gradient of a layer's output (d_out_) to that of its input (d_in_), which is that of the layer before it.
void FusedGroup::back_through_layer(size_t index, const Part& part, FusedSums& sums) {
  const TransformerOptions& options = model_.options;
  const FusedLayer& weights = model_.layers[index];
  const auto back = [&](const FusedWeight& weight, const FusedMatrix& left, const LinearTask& task) {
    ops_.linear(weight, FusedOps::Way::backward, left, task, part.first, part.rows);
  };
  const auto into_stream = [&](const FusedMatrix& out, double alpha) {
    LinearTask task = residual(out, alpha, 1.0);
    task.factor = 1.0F;  // the branch's share is in what comes back from it
    return task;
  };
  back(weights.down, d_out_,
       {.epilogue = Epilogue::times,
        .factor = model_.share(options.mlp_alpha),
        .out = d_active_.data,
        .slope = layers_[index].slope.data,
        .out_stride = d_active_.stride});
  back(weights.up, d_active_, into_stream(d_middle_, options.mlp_alpha));
  back(weights.output, d_middle_,
       {.factor = model_.share(options.attention_alpha) * static_cast<float>(options.attention_output_scale),
        .out = d_heads_.data,
        .out_stride = d_heads_.stride});
  attend_backward(index, part, sums);
  turn_part(d_qkv_, part, -1.0F);
  back(weights.qkv, d_qkv_, into_stream(d_in_, options.attention_alpha));
}

void FusedGroup::back_through_layers(FusedSums& sums) {
  for (size_t i = layers_.size(); i-- > 0;) {
    const Layer& layer = layers_[i];
    each_part([&](const Part& part) { back_through_layer(i, part, sums); });
    float* const* out = sums.matrices.data() + 4 * i;  // qkv, output, up, down
    ops_.add_gradient(layer.in, d_qkv_, tokens(), out[0], !sums.empty);
    ops_.add_gradient(d_middle_, layer.heads, tokens(), out[1], !sums.empty);
    ops_.add_gradient(layer.middle, d_active_, tokens(), out[2], !sums.empty);
    ops_.add_gradient(d_out_, layer.active, tokens(), out[3], !sums.empty);
    std::swap(d_out_, d_in_);
  }
}

// In the order of the tokens; members take columns.
void FusedGroup::add_embedding_gradients(const int64_t* tokens, FusedSums& sums) const {
  const int64_t parts = model_.size / kBlock;
  ops_.team().each(ops_.team().threads() == 1 ? 1 : parts, [&](int64_t part, int) {
    const int64_t begin = part * kBlock, end = ops_.team().threads() == 1 ? model_.size : begin + kBlock;
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
