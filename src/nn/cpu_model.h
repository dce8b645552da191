// A model on the CPU: walks in float64 whose rounding is bounded run there, wherever the model is.
#pragma once

#include <memory>

#include "bridle/nn.h"

namespace bridle {

// The model itself where it is on the CPU, otherwise a copy.
class CpuModel {
 public:
  explicit CpuModel(const Model& model)
      : copy_(model.device().is_cpu() ? nullptr : copy_to(model, at::kCPU)), model_(copy_ ? *copy_ : model) {}
  const Model& operator*() const { return model_; }
  const Model* operator->() const { return &model_; }

 private:
  std::unique_ptr<Model> copy_;
  const Model& model_;
};

}  // namespace bridle
