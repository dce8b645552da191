#include "data/image_source.h"

#include <ATen/TensorAccessor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/tensor.h>
#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "bridle/error.h"
#include "bridle/random.h"
#include "data/cifar.h"

namespace bridle {

ImageFiles::ImageFiles(const std::vector<DataFile>& files) {
  for (const DataFile& file : files) {
    files_.emplace_back(file.path, MappedFile::Access::random);
    if (file.count < 1 || files_.back().bytes().size() != static_cast<size_t>(file.count) * kCifarRecord ||
        (per_file_ != 0 && file.count != per_file_)) {
      throw InputError(
          "images", fmt::format("{}: {} bytes are not {} records of {}; it is truncated, fetch it again",
                                file.path.string(), files_.back().bytes().size(), file.count, kCifarRecord));
    }
    per_file_ = file.count;
  }
}

const uint8_t* ImageFiles::record(int64_t index) const {
  const MappedFile& file = files_.at(static_cast<size_t>(index / per_file_));
  return reinterpret_cast<const uint8_t*>(file.bytes().data()) +
         static_cast<size_t>(index % per_file_) * kCifarRecord;
}

ChannelStatistics channel_statistics(const ImageFiles& images) {
  constexpr int64_t kPlane = kCifarPixels / 3;
  if (images.size() == 0) throw InputError("data", "there are no images to standardise by");
  std::array<int64_t, 3> sum{};
  std::array<int64_t, 3> squares{};
  for (int64_t i = 0; i < images.size(); ++i) {
    const uint8_t* pixels = images.record(i) + 1;
    for (size_t channel = 0; channel < 3; ++channel) {
      for (int64_t j = 0; j < kPlane; ++j) {
        const int64_t value = *pixels++;
        sum.at(channel) += value;
        squares.at(channel) += value * value;
      }
    }
  }
  ChannelStatistics statistics;
  const auto count = static_cast<double>(images.size() * kPlane);
  for (size_t channel = 0; channel < 3; ++channel) {
    const double mean = static_cast<double>(sum.at(channel)) / count;
    const double variance = static_cast<double>(squares.at(channel)) / count - mean * mean;
    statistics.mean.at(channel) = mean / 255.0;
    statistics.deviation.at(channel) =
        std::sqrt(std::max(variance, 1.0)) / 255.0;  // a constant channel stays finite
  }
  return statistics;
}

namespace {

at::Tensor per_channel(const std::array<double, 3>& values) {
  return at::tensor(at::ArrayRef<double>(values), at::kFloat).view({3, 1});
}

// A share of the labels replaced by draws from all classes, the right one among them.
void randomize_labels_(std::vector<int64_t>& labels, double share, uint64_t seed) {
  if (!(share >= 0.0 && share <= 1.0))
    throw InputError("data", fmt::format("random_labels must be from 0 to 1, got {}", share));
  const auto count = static_cast<int64_t>(labels.size());
  const at::Tensor chance =
      random_uniform({count}, {.seed = seed, .stream = Stream::labels, .step = 0}, at::kDouble);
  const at::Tensor drawn =
      random_integers({count}, kCifarClasses, {.seed = seed, .stream = Stream::labels, .step = 1});
  const auto chances = chance.accessor<double, 1>();
  const auto classes = drawn.accessor<int64_t, 1>();
  for (int64_t i = 0; i < count; ++i) {
    if (chances[i] < share) labels[static_cast<size_t>(i)] = classes[i];
  }
}

}  // namespace

ImageSource::ImageSource(std::shared_ptr<const ImageFiles> images, const ImageSourceOptions& options)
    : images_(std::move(images)), begin_(options.begin), end_(options.end) {
  if (size() < 1) throw InputError("data", "this part of the images is empty; hold out less");
  for (int64_t i = begin_; i < end_; ++i) {
    const int64_t label = *images_->record(i);
    if (label >= kCifarClasses)
      throw InputError("images", fmt::format("image {} has label {}, not one of 0 … 9", i, label));
    labels_.push_back(label);
  }
  if (options.random_labels != 0.0) randomize_labels_(labels_, options.random_labels, options.seed);
  if (!options.standardize) return;
  mean_ = per_channel(options.standardize->mean);
  deviation_ = per_channel(options.standardize->deviation);
}

Batch ImageSource::read(std::span<const int64_t> starts) const {
  const auto rows = static_cast<int64_t>(starts.size());
  std::vector<uint8_t> bytes;
  bytes.reserve(starts.size() * static_cast<size_t>(kCifarPixels));
  at::Tensor targets = at::empty({rows}, at::kLong);
  auto labels = targets.accessor<int64_t, 1>();
  for (int64_t i = 0; i < rows; ++i) {
    const int64_t start = starts[static_cast<size_t>(i)];
    const uint8_t* record = images_->record(begin_ + start);
    bytes.insert(bytes.end(), record + 1, record + kCifarRecord);
    labels[i] = labels_.at(static_cast<size_t>(start));
  }
  at::Tensor pixels =
      at::from_blob(bytes.data(), {rows, 3, kCifarPixels / 3}, at::kByte).to(at::kFloat).div_(255.0);
  if (mean_.defined()) pixels.sub_(mean_).div_(deviation_);
  return {pixels.view({rows, kCifarPixels}), targets};
}

}  // namespace bridle
