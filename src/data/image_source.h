// Images in CIFAR-10's layout as float32 pixels in [0, 1], optionally standardised a channel.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "base/files.h"
#include "bridle/data.h"

namespace bridle {

// The records of several files as one sequence.
class ImageFiles {
 public:
  explicit ImageFiles(const std::vector<DataFile>& files);
  int64_t size() const { return static_cast<int64_t>(files_.size()) * per_file_; }
  const uint8_t* record(int64_t index) const;  // label, then pixels

 private:
  std::vector<MappedFile> files_;
  int64_t per_file_ = 0;
};

ChannelStatistics channel_statistics(const ImageFiles& images);  // of pixels in [0, 1]

struct ImageSourceOptions {
  int64_t begin = 0;
  int64_t end = 0;
  std::optional<ChannelStatistics> standardize = std::nullopt;
  double random_labels = 0.0;
  uint64_t seed = 0;
};

class ImageSource : public Source {
 public:
  ImageSource(std::shared_ptr<const ImageFiles> images, const ImageSourceOptions& options);

  int64_t size() const override { return end_ - begin_; }
  int64_t stride() const override { return 1; }
  Batch read(std::span<const int64_t> starts) const override;

 private:
  std::shared_ptr<const ImageFiles> images_;
  int64_t begin_;
  int64_t end_;
  std::vector<int64_t> labels_;  // of [begin, end), with the random ones in place
  at::Tensor mean_;              // [3, 1]; undefined: pixels as they are
  at::Tensor deviation_;
};

}  // namespace bridle
