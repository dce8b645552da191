// y = s·x, with s fixed or learned.
#pragma once

#include <optional>
#include <string>

#include "nn/enclosure.h"
#include "nn/weights.h"

namespace bridle {

class Scale {
 public:
  Scale(Weights& weights, const std::string& name, double value, bool is_learned);
  at::Tensor forward(const at::Tensor& x) const;
  Bound bound(const Bound& in, Walk& walk) const { return in.affine(magnitude(walk)); }
  Enclosure enclose(const Enclosure& x, const ErrorWalk& walk) const;
  UpperBound magnitude(Walk& walk) const;  // |s|
  double value() const;                    // s

 private:
  double value_;
  std::optional<Param> learned_;
};

}  // namespace bridle
