// Windows of a token stream: inputs are T tokens, targets the T that follow each by one.
#pragma once

#include <memory>

#include "bridle/data.h"
#include "data/token_files.h"

namespace bridle {

class TokenSource : public Source {
 public:
  // The part [begin, end) of the stream. Throws InputError where it does not hold one window.
  TokenSource(std::shared_ptr<const TokenFiles> files, int64_t begin, int64_t end, int64_t sequence_length);

  int64_t size() const override { return end_ - begin_ - sequence_length_; }
  int64_t stride() const override { return sequence_length_; }
  Batch read(std::span<const int64_t> starts) const override { return windows(starts, sequence_length_); }
  std::optional<Batch> remainder() const override;

 private:
  Batch windows(std::span<const int64_t> starts, int64_t length) const;
  std::shared_ptr<const TokenFiles> files_;
  int64_t begin_;
  int64_t end_;
  int64_t sequence_length_;
};

}  // namespace bridle
