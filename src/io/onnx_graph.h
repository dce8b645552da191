// A graph of ONNX operators, built node by node, and its file. Operators are those of opset 13.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

namespace bridle {

using OnnxAttribute = std::variant<int64_t, double, std::string, std::vector<int64_t>>;
using OnnxDimension = std::variant<int64_t, std::string>;  // a size, or the name of one that is free

class OnnxGraph {
 public:
  explicit OnnxGraph(const std::string& name);
  ~OnnxGraph();
  OnnxGraph(const OnnxGraph&) = delete;
  OnnxGraph& operator=(const OnnxGraph&) = delete;

  // All return the name of a value. `dtype` is float32 or int64.
  std::string input(const std::string& name, at::ScalarType dtype, const std::vector<OnnxDimension>& shape);
  std::string constant(const at::Tensor& values);  // floating types become float32
  std::string constant(double value);              // a float32 scalar
  std::string integers(const std::vector<int64_t>& values);
  std::string integer(int64_t value);  // a scalar
  std::string apply(const std::string& op, const std::vector<std::string>& inputs,
                    const std::map<std::string, OnnxAttribute>& attributes = {});
  void output(const std::string& value, const std::string& name, const std::vector<OnnxDimension>& shape);

  // The file's bytes. Throws InputError where they would be more than the format can have, 2 GB.
  std::string serialized(const std::map<std::string, std::string>& metadata) const;

 private:
  std::string fresh();
  struct Messages;
  std::unique_ptr<Messages> messages_;
  int64_t values_ = 0;
  double bytes_ = 0.0;
};

}  // namespace bridle
