// Data that stands in memory.
#pragma once

#include <ATen/ops/stack.h>

#include <memory>
#include <vector>

#include "bridle/data.h"
#include "bridle/nn.h"

namespace bridle::test {

class FixedSource : public Source {
 public:
  FixedSource(at::Tensor inputs, at::Tensor labels)
      : inputs_(std::move(inputs)), labels_(std::move(labels)) {}
  int64_t size() const override { return inputs_.size(0); }
  int64_t stride() const override { return 1; }
  Batch read(std::span<const int64_t> starts) const override {
    std::vector<at::Tensor> inputs, labels;
    for (const int64_t i : starts) {
      inputs.push_back(inputs_[i]);
      labels.push_back(labels_[i]);
    }
    return {at::stack(inputs), at::stack(labels)};
  }

 private:
  at::Tensor inputs_, labels_;
};

// With the labels that the model itself gives them.
inline std::shared_ptr<FixedSource> labelled(const Model& model, const at::Tensor& inputs) {
  Pass pass{.dtype = at::kDouble};
  return std::make_shared<FixedSource>(inputs, model.forward(inputs, pass).argmax(-1).detach());
}

}  // namespace bridle::test
