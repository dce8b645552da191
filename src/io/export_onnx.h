// A model as an ONNX file (opset 13, float32): "input" [batch, inputs] → "logits" [batch, classes] for an MLP, "tokens"
// [batch, length] in int64 → "logits" [batch, length, tokens of the vocabulary] for a transformer, of any length up to
// max_position_embeddings. The decaying maxima of quadrature mixing, for which ONNX has no operator, are made by doubling.
#pragma once

#include <map>
#include <string>

#include "bridle/nn.h"

namespace bridle {

// The file's bytes. Throws InputError for a model that no options describe.
std::string onnx_bytes(const Model& model, const std::string& name,
                       const std::map<std::string, std::string>& metadata);

}  // namespace bridle
