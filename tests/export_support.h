// What tests of exports need: models with every option, and weights of the size that training has.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bridle/nn.h"

namespace bridle::test {

struct NamedModel {
  std::string name;
  ModelOptions options;
};

std::vector<NamedModel> exported_mlps();
std::vector<NamedModel> exported_transformers();
std::vector<NamedModel> torch_only_transformers();  // what neither ONNX files nor distances of models know

// None of the weights is zero.
std::unique_ptr<Model> trained_like(const ModelOptions& options, uint64_t seed = 1);

}  // namespace bridle::test
