#include "train/random_source.h"

#include <ATen/ops/tensor.h>

namespace bridle {
namespace {

constexpr int64_t kExamples = int64_t{1} << 20U;  // more than a short run reads

RandomKey key_at(std::span<const int64_t> starts, uint64_t seed) {
  return {.seed = seed, .stream = Stream::data_order, .step = static_cast<uint64_t>(starts.front())};
}

class RandomTokens : public Source {
 public:
  RandomTokens(int64_t length, int64_t vocabulary, uint64_t seed)
      : length_(length), vocabulary_(vocabulary), seed_(seed) {}
  int64_t size() const override { return kExamples; }
  int64_t stride() const override { return 1; }
  Batch read(std::span<const int64_t> starts) const override {
    const at::Tensor tokens = random_integers({std::ssize(starts), length_ + 1},
                                              static_cast<uint64_t>(vocabulary_), key_at(starts, seed_));
    return {tokens.narrow(1, 0, length_).contiguous(), tokens.narrow(1, 1, length_).contiguous()};
  }

 private:
  int64_t length_;
  int64_t vocabulary_;
  uint64_t seed_;
};

// Few images that come again and again: making new ones for each batch would take a core from the step that is timed.
class RandomImages : public Source {
 public:
  RandomImages(int64_t pixels, int64_t classes, uint64_t seed)
      : pixels_(random_uniform({kImages, pixels}, {.seed = seed, .stream = Stream::data_order})),
        labels_(random_integers({kImages}, static_cast<uint64_t>(classes),
                                {.seed = seed, .stream = Stream::data_order, .step = 1})) {}
  int64_t size() const override { return kExamples; }
  int64_t stride() const override { return 1; }
  Batch read(std::span<const int64_t> starts) const override {
    const at::Tensor places =
        at::tensor(at::IntArrayRef(starts.data(), starts.size()), at::kLong).remainder(kImages);
    return {pixels_.index_select(0, places), labels_.index_select(0, places)};
  }

 private:
  static constexpr int64_t kImages = 2048;
  at::Tensor pixels_;
  at::Tensor labels_;
};

}  // namespace

namespace {

DataSet data_for(const MlpOptions& model) {
  return {.name = "random",
          .kind = DataKind::images,
          .outputs = model.layer_sizes.empty() ? 10 : model.layer_sizes.back()};
}

DataSet data_for(const TransformerOptions& model) {
  const int64_t named = model.real_vocab_size > 0 ? model.real_vocab_size : model.vocab_size;
  return {.name = "random", .kind = DataKind::tokens, .outputs = named > 0 ? named : 65};
}

}  // namespace

DataSet random_data_set(const RunOptions& options) {
  return options.model.visit([](const auto& own) { return data_for(own); });
}

std::shared_ptr<const Source> random_source(const RunOptions& options) {
  const ModelShape shape = outline(options.model.options())->shape();
  const uint64_t seed = options.training.seed;
  switch (shape.input) {
    case InputKind::vectors:
      return std::make_shared<RandomImages>(shape.size, shape.outputs, seed);
    case InputKind::tokens:
      break;
  }
  return std::make_shared<RandomTokens>(options.data.sequence_length, shape.outputs, seed);
}

}  // namespace bridle
