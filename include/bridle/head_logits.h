// How large the logits of every head of attention can become on the whole domain: what clipping them would have to know.
#pragma once

#include <vector>

#include "bridle/certify.h"
#include "bridle/nn.h"

namespace bridle {

struct HeadLogit {
  int64_t layer = 0, head = 0;
  StatedBound query = {}, key = {};  // largest Euclidean length of a query and of a key
  StatedBound logit = {};            // |softmax_scale/d_h · q·k|, without position biases
};

// One entry per query head, layer by layer; empty for models without attention. `bound` is the model's. Throws PromiseError where a
// norm cannot be established.
std::vector<HeadLogit> head_logits(const Model& model, const CertifiedBound& bound);

}  // namespace bridle
