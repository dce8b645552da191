// Tokens that a model reads wrongly while it learns: it comes to trust no single one of them, and learns less by heart.
#pragma once

#include "bridle/random.h"

namespace bridle {

// Each token of [B, T], with the probability `share`, one drawn evenly from all.
at::Tensor with_wrong_tokens(const at::Tensor& tokens, double share, int64_t vocabulary,
                             const RandomKey& key);

}  // namespace bridle
