// A VNNLIB property of a classifier: whether an input in a box around x is not given x's class. Verifiers such as αβ-CROWN answer
// "unsat" where it holds for the whole box. X_i are the model's inputs and Y_j its logits, in the order of the ONNX file.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

namespace bridle {

struct VnnlibProperty {
  at::Tensor vector = {};  // x: [n]
  int64_t predicted = 0;
  int64_t outputs = 2;
  double epsilon = 0.0;  // of every entry; the box is rounded inwards
  std::string note = {};
};

// Throws InputError where no number lies in the box.
std::string vnnlib_text(const VnnlibProperty& property);

}  // namespace bridle
