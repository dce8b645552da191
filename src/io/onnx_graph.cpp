#include "io/onnx_graph.h"

#include <ATen/TensorAccessor.h>
#include <ATen/ops/tensor.h>
#include <fmt/format.h>

#include <cstring>

#include "bridle/error.h"
#include "io/onnx.pb.h"

namespace bridle {
namespace {

constexpr int kFloat = 1, kInt64 = 7;                                // TensorProto.DataType
constexpr int kFloatOf = 1, kIntOf = 2, kStringOf = 3, kIntsOf = 7;  // AttributeProto.AttributeType
constexpr int64_t kIrVersion = 7, kOpset = 13;
constexpr double kLargestFile = 2e9;

int type_of(at::ScalarType dtype) { return dtype == at::kLong ? kInt64 : kFloat; }

void describe(onnx::ValueInfoProto& info, const std::string& name, int type,
              const std::vector<OnnxDimension>& shape) {
  info.set_name(name);
  auto* tensor = info.mutable_type()->mutable_tensor_type();
  tensor->set_elem_type(type);
  for (const OnnxDimension& dimension : shape) {
    auto* own = tensor->mutable_shape()->add_dim();
    if (const auto* size = std::get_if<int64_t>(&dimension))
      own->set_dim_value(*size);
    else
      own->set_dim_param(std::get<std::string>(dimension));
  }
}

struct AttributeWriter {
  onnx::AttributeProto& attribute;
  void operator()(int64_t value) const {
    attribute.set_type(kIntOf);
    attribute.set_i(value);
  }
  void operator()(double value) const {
    attribute.set_type(kFloatOf);
    attribute.set_f(static_cast<float>(value));
  }
  void operator()(const std::string& value) const {
    attribute.set_type(kStringOf);
    attribute.set_s(value);
  }
  void operator()(const std::vector<int64_t>& values) const {
    attribute.set_type(kIntsOf);
    for (const int64_t value : values) attribute.add_ints(value);
  }
};

// Machines that Bridle runs on are little endian, as the format is.
template <class Number>
std::string bytes_of(const at::Tensor& flat) {
  const auto values = flat.accessor<Number, 1>();
  std::string bytes(static_cast<size_t>(flat.numel()) * sizeof(Number), '\0');
  for (int64_t i = 0; i < flat.numel(); ++i) {
    const Number value = values[i];
    std::memcpy(bytes.data() + static_cast<size_t>(i) * sizeof(Number), &value, sizeof(Number));
  }
  return bytes;
}

}  // namespace

struct OnnxGraph::Messages {
  onnx::GraphProto graph;
};

OnnxGraph::OnnxGraph(const std::string& name) : messages_(std::make_unique<Messages>()) {
  messages_->graph.set_name(name);
}

OnnxGraph::~OnnxGraph() = default;

std::string OnnxGraph::fresh() { return fmt::format("v{}", values_++); }

std::string OnnxGraph::input(const std::string& name, at::ScalarType dtype,
                             const std::vector<OnnxDimension>& shape) {
  describe(*messages_->graph.add_input(), name, type_of(dtype), shape);
  return name;
}

std::string OnnxGraph::constant(const at::Tensor& values) {
  const bool whole = values.scalar_type() == at::kLong;
  const at::Tensor flat =
      values.detach().cpu().to(whole ? at::kLong : at::kFloat).contiguous().view({values.numel()});
  onnx::TensorProto& tensor = *messages_->graph.add_initializer();
  tensor.set_name(fresh());
  tensor.set_data_type(whole ? kInt64 : kFloat);
  for (const int64_t size : values.sizes()) tensor.add_dims(size);
  bytes_ += static_cast<double>(flat.numel()) * (whole ? 8.0 : 4.0);
  if (bytes_ > kLargestFile)
    throw InputError("export", "an ONNX file must be below 2 GB, and this model's weights are not");
  tensor.set_raw_data(whole ? bytes_of<int64_t>(flat) : bytes_of<float>(flat));
  return tensor.name();
}

std::string OnnxGraph::constant(double value) { return constant(at::tensor(value, at::kDouble).squeeze()); }

std::string OnnxGraph::integers(const std::vector<int64_t>& values) {
  return constant(at::tensor(values, at::kLong));
}

std::string OnnxGraph::integer(int64_t value) { return constant(at::tensor(value, at::kLong).squeeze()); }

std::string OnnxGraph::apply(const std::string& op, const std::vector<std::string>& inputs,
                             const std::map<std::string, OnnxAttribute>& attributes) {
  onnx::NodeProto& node = *messages_->graph.add_node();
  node.set_op_type(op);
  for (const std::string& input : inputs) node.add_input(input);
  const std::string result = fresh();
  node.add_output(result);
  node.set_name(result);
  for (const auto& [name, value] : attributes) {
    onnx::AttributeProto& attribute = *node.add_attribute();
    attribute.set_name(name);
    std::visit(AttributeWriter{attribute}, value);
  }
  return result;
}

void OnnxGraph::output(const std::string& value, const std::string& name,
                       const std::vector<OnnxDimension>& shape) {
  onnx::NodeProto& node = *messages_->graph.add_node();
  node.set_op_type("Identity");
  node.add_input(value);
  node.add_output(name);
  node.set_name(name);
  describe(*messages_->graph.add_output(), name, kFloat, shape);
}

std::string OnnxGraph::serialized(const std::map<std::string, std::string>& metadata) const {
  onnx::ModelProto model;
  model.set_ir_version(kIrVersion);
  model.set_producer_name("bridle");
  model.set_producer_version(BRIDLE_VERSION);
  model.add_opset_import()->set_version(kOpset);
  model.mutable_opset_import(0)->set_domain("");
  *model.mutable_graph() = messages_->graph;
  for (const auto& [key, value] : metadata) {
    onnx::StringStringEntryProto& entry = *model.add_metadata_props();
    entry.set_key(key);
    entry.set_value(value);
  }
  return model.SerializeAsString();
}

}  // namespace bridle
