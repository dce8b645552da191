#include "train/random_source.h"

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

class RandomImages : public Source {
 public:
  RandomImages(int64_t pixels, int64_t classes, uint64_t seed)
      : pixels_(pixels), classes_(classes), seed_(seed) {}
  int64_t size() const override { return kExamples; }
  int64_t stride() const override { return 1; }
  Batch read(std::span<const int64_t> starts) const override {
    const RandomKey key = key_at(starts, seed_);
    return {random_uniform({std::ssize(starts), pixels_}, key),
            random_integers({std::ssize(starts)}, static_cast<uint64_t>(classes_), key)};
  }

 private:
  int64_t pixels_;
  int64_t classes_;
  uint64_t seed_;
};

}  // namespace

DataSet random_data_set(const RunOptions& options) {
  const ModelOptions& model = options.model;
  if (model.kind == "mlp")
    return {.name = "random",
            .kind = DataKind::images,
            .outputs = model.layer_sizes.empty() ? 10 : model.layer_sizes.back()};
  const int64_t named = model.real_vocab_size > 0 ? model.real_vocab_size : model.vocab_size;
  return {.name = "random", .kind = DataKind::tokens, .outputs = named > 0 ? named : 65};
}

std::shared_ptr<const Source> random_source(const RunOptions& options) {
  const ModelOptions& model = options.model;
  const uint64_t seed = options.training.seed;
  if (model.kind == "mlp")
    return std::make_shared<RandomImages>(model.layer_sizes.front(), model.layer_sizes.back(), seed);
  return std::make_shared<RandomTokens>(options.data.sequence_length, model.real_vocab_size, seed);
}

}  // namespace bridle
