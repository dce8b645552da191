// The forward pass of a model in 210 digits, written from docs/reference/certificate.md alone: it shares no code with src/nn.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>
#include <vector>

#include "bridle/nn.h"
#include "real.h"

namespace bridle::test {

using RealVector = std::vector<Real>;
using RealRows = std::vector<RealVector>;  // a row per token; an MLP has one

struct ExactPass {
  RealRows logits;
  std::map<std::string, Real> largest_rms;  // after each layer, over tokens
};

RealRows real_rows(const at::Tensor& values);  // [rows, n], any floating type

// `embedded` is one sequence [T, d], or one input [1, D].
ExactPass exact_forward(const Model& model, const RealRows& embedded);

Real rms(const RealVector& x);
RealVector operator-(const RealVector& a, const RealVector& b);

}  // namespace bridle::test
