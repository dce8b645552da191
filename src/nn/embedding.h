// Tokens become rows of a table; learned positions add theirs. The bound speaks of the embedded sequence.
#pragma once

#include <optional>

#include "nn/enclosure.h"
#include "nn/weights.h"

namespace bridle {

class Embedding {
 public:
  Embedding(const TransformerOptions& options, Weights& weights);
  at::Tensor embed(const at::Tensor& tokens, Pass& pass) const;  // [B, T] → [B, T, d]
  at::Tensor add_positions(const at::Tensor& x,
                           int64_t first) const;            // [B, T, d], positions first … first + T − 1
  Bound bound(const UpperBound& domain, Walk& walk) const;  // after positions
  Enclosure enclose(const at::Tensor& embedded, const ErrorWalk& walk) const;  // after positions
  const Param& table() const { return table_; }

 private:
  Param table_;
  std::optional<Param> positions_;
};

}  // namespace bridle
