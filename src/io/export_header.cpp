#include "io/export_header.h"

#include <ATen/TensorAccessor.h>
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <set>
#include <stdexcept>

#include "bridle/error.h"

namespace bridle {
namespace {

std::string array_of(const std::string& name, const char* type, const at::Tensor& values,
                     const char* format) {
  const at::Tensor flat = values.detach().to(at::kDouble).contiguous().view({values.numel()});
  const auto numbers = flat.accessor<double, 1>();
  std::string text = fmt::format("  static const {} {}[{}] = {{", type, name, flat.numel());
  for (int64_t i = 0; i < flat.numel(); ++i) {
    text += i % 8 == 0 ? "\n      " : " ";
    text += fmt::format(fmt::runtime(format), numbers[i]);
    if (i + 1 < flat.numel()) text += ",";
  }
  return text + "};\n";
}

// Nine significant digits with a point, so that the suffix f is allowed.
std::string weights_of(const std::string& name, const at::Tensor& values) {
  return array_of(name, "float", values, "{:.8e}f");
}

// f applied to the `size` values of `x` where they stand. Sums are wider than values may be.
std::string activation_code(ActivationKind kind) {
  const auto each = [](const char* formula) {
    return fmt::format("  for (int i = 0; i < size; ++i) x[i] = {};\n", formula);
  };
  switch (kind) {
    case ActivationKind::gelu:
      return each("x[i] * (Sum(0.5) * (Sum(1) + std::erf(x[i] * Sum(0.70710678118654752440))))");
    case ActivationKind::gelu_tanh:
      return each(
          "x[i] * (Sum(0.5) * (Sum(1) + std::tanh(Sum(0.79788456080286535588) * (x[i] + Sum(0.044715) * x[i] "
          "* "
          "x[i] * x[i]))))");
    case ActivationKind::relu:
      return each("x[i] <= Sum(0) ? Sum(0) : x[i]");
    case ActivationKind::maxmin:
      return "  for (int i = 0; i + 1 < size; i += 2) {\n"
             "    const Sum a = x[i], b = x[i + 1];\n"
             "    x[i] = a < b ? b : a;\n"
             "    x[i + 1] = a < b ? a : b;\n"
             "  }\n";
    case ActivationKind::abs:
      return each("std::fabs(x[i])");
    case ActivationKind::relu_squared:
      return each("x[i] <= Sum(0) ? Sum(0) : x[i] * x[i]");
    case ActivationKind::tanh:
      return each("std::tanh(x[i])");
    case ActivationKind::silu:
      return each("x[i] / (Sum(1) + std::exp(-x[i]))");
  }
  throw std::logic_error("an activation without C++ code");
}

std::string number(double value) { return fmt::format("{:.17e}", value); }

std::string bound_text(const HeaderFacts& facts) {
  if (!facts.bound || !std::isfinite(facts.bound->lipschitz.value))
    return "// No finite Lipschitz bound is known of it.\n";
  return fmt::format(
      "// Certified, for inputs of RMS up to kInputRms, in exact arithmetic: two inputs whose difference has "
      "RMS e have\n"
      "// logits whose difference has RMS at most kLipschitz*e, and any one logit differs by at most "
      "kLargestLogitLipschitz*e.\n"
      "constexpr double kLipschitz = {};\n"
      "constexpr double kLargestLogitLipschitz = {};\n"
      "constexpr double kInputRms = {};\n",
      number(facts.bound->lipschitz.value), number(facts.bound->largest_logit.value),
      number(facts.bound->domain_radius));
}

std::string standardise_code(const Standardisation& standard) {
  const auto list = [](const std::vector<double>& values) {
    std::string text;
    for (size_t i = 0; i < values.size(); ++i)
      text += (i == 0 ? "" : i % 4 == 0 ? ",\n      " : ", ") + number(values[i]);
    return text;
  };
  return fmt::format(
      "// Raw inputs as the model takes them: (raw - mean)/deviation, a pair for {} in a row.\n"
      "template <class Real>\n"
      "inline void standardise(const Real* raw, Real* input) {{\n"
      "  static const double mean[] = {{\n      {}}};\n"
      "  static const double deviation[] = {{\n      {}}};\n"
      "  for (int i = 0; i < kInputs; ++i)\n"
      "    input[i] = static_cast<Real>((static_cast<double>(raw[i]) - mean[i / {}]) / deviation[i / {}]);\n"
      "}}\n\n",
      standard.each, list(standard.mean), list(standard.deviation), standard.each, standard.each);
}

constexpr const char* kProduct =
    "// y = Wx: each sum is made in Sum, from left to right.\n"
    "template <class Sum>\n"
    "inline void product(const float* weights, const Sum* x, Sum* y, int rows, int columns) {\n"
    "  for (int i = 0; i < rows; ++i) {\n"
    "    Sum sum = 0;\n"
    "    for (int j = 0; j < columns; ++j) sum += static_cast<Sum>(weights[i * columns + j]) * x[j];\n"
    "    y[i] = sum;\n"
    "  }\n"
    "}\n\n";

std::string evaluate_code(const MlpOptions& o) {
  const std::vector<int64_t>& sizes = o.layer_sizes;
  std::string text = fmt::format(
      "// input[kInputs] -> logits[kOutputs]. Signals and sums are of type Sum; where there is no double, "
      "evaluate<float, float>\n// does with float, and is less exact.\n"
      "template <class Real, class Sum = double>\n"
      "inline void evaluate(const Real* input, Real* logits) {{\n"
      "  Sum x[{0}], y[{0}];\n"
      "  for (int i = 0; i < kInputs; ++i) x[i] = static_cast<Sum>(input[i]);\n",
      *std::max_element(sizes.begin(), sizes.end()));
  for (size_t i = 0; i + 1 < sizes.size(); ++i) {
    const bool last = i + 2 == sizes.size();
    text +=
        fmt::format("  detail::product(detail::weights_{}(), x, y, {}, {});\n", i, sizes[i + 1], sizes[i]);
    if (last) break;
    if (o.bias) text += fmt::format("  detail::add(detail::bias_{0}(), y, {1});\n", i, sizes[i + 1]);
    text += fmt::format("  detail::activate(y, {});\n", sizes[i + 1]);
    text += fmt::format("  for (int i = 0; i < {}; ++i) x[i] = y[i];\n", sizes[i + 1]);
  }
  const size_t last = sizes.size() - 2;
  const std::string bias = o.bias ? fmt::format(" + static_cast<Sum>(detail::bias_{}()[i])", last) : "";
  text += fmt::format(
      "  for (int i = 0; i < kOutputs; ++i) logits[i] = static_cast<Real>(y[i] * "
      "static_cast<Sum>({}){});\n}}\n",
      number(o.final_scale), bias);
  return text;
}

const MlpOptions& small_mlp(const std::optional<ModelOptions>& options, const Model& model) {
  const auto* mlp = options ? std::get_if<MlpOptions>(&*options) : nullptr;
  if (mlp == nullptr)
    throw InputError("export", "--format header is for MLPs, and this model is another; use torch or onnx");
  int64_t weights = 0;
  for (const Param& param : model.params()) weights += param.tensor.numel();
  if (weights > kLargestHeader)
    throw InputError("export",
                     fmt::format("--format header is for models of up to {} weights, and this one has {}; "
                                 "use torch or onnx",
                                 kLargestHeader, weights));
  for (const Param& param : model.params())
    if (!param.tensor.detach().isfinite().all().item<bool>())
      throw InputError("export",
                       fmt::format("{} holds NaN or infinity, which a header cannot have", param.name));
  return *mlp;
}

}  // namespace

std::string identifier_of(const std::string& stem) {
  static const std::set<std::string> kReserved{"detail", "std",      "float",    "double", "int",
                                               "class",  "struct",   "new",      "delete", "default",
                                               "export", "template", "namespace"};
  std::string name;
  for (const char c : stem) name += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  if (name.empty() || std::isdigit(static_cast<unsigned char>(name.front())) != 0 || name.front() == '_' ||
      kReserved.contains(name))
    name = "model_" + name;
  return name;
}

std::string header_text(const Model& model, const HeaderFacts& facts) {
  const std::optional<ModelOptions> options = model.options();
  const MlpOptions& o = small_mlp(options, model);
  std::string text = fmt::format(
      "// A network, made by `bridle export` from weights with SHA-256\n// {}.\n"
      "//   float logits[{}::kOutputs];\n//   {}::evaluate(input, logits);\n"
      "#pragma once\n\n#include <cmath>\n\nnamespace {} {{\n\n"
      "constexpr int kInputs = {};\nconstexpr int kOutputs = {};\n\n{}\nnamespace detail {{\n\n{}",
      facts.sha256, facts.name, facts.name, facts.name, o.layer_sizes.front(), o.layer_sizes.back(),
      bound_text(facts), kProduct);
  if (o.bias)
    text +=
        "template <class Sum>\ninline void add(const float* bias, Sum* y, int size) {\n"
        "  for (int i = 0; i < size; ++i) y[i] += static_cast<Sum>(bias[i]);\n}\n\n";
  if (o.layer_sizes.size() > 2)
    text += fmt::format("template <class Sum>\ninline void activate(Sum* x, int size) {{\n{}}}\n\n",
                        activation_code(o.activation));
  for (const Param& param : model.params()) {
    const std::string layer = param.name.substr(std::string("model.layers.").size());
    const size_t point = layer.find('.');
    const bool is_bias = layer.substr(point) == ".bias";
    text +=
        fmt::format("inline const float* {}_{}() {{\n{}  return values;\n}}\n\n",
                    is_bias ? "bias" : "weights", layer.substr(0, point), weights_of("values", param.tensor));
  }
  text += "}  // namespace detail\n\n";
  if (facts.standard) text += standardise_code(*facts.standard);
  text += evaluate_code(o);
  return text + fmt::format("\n}}  // namespace {}\n", facts.name);
}

}  // namespace bridle
