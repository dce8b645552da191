// Dropout whose mask is a function of a key, a row and a column (kernels/dropout_hash.h): the same pass drops the same entries
// after any resume, on any number of threads, in the fused pass and in its plain twin.
#pragma once

#include "bridle/nn.h"

namespace bridle {

at::Tensor dropout(const at::Tensor& x, double share, Pass& pass);

// Of the so-manieth use of dropout in a pass.
uint64_t dropout_key(const RandomKey& key, uint64_t call);

// The same for whole sequences, [B, T, d]: the branch that x ends is dropped or not.
at::Tensor drop_path(const at::Tensor& x, double share, Pass& pass);

}  // namespace bridle
