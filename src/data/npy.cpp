// .npy files, versions 1 to 3: "\x93NUMPY", the version, the length of a header that is a Python dict with descr, fortran_order and
// shape, then the entries in C order, little endian.
#include <ATen/ops/from_blob.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <map>

#include "base/files.h"
#include "bridle/error.h"
#include "data/table.h"

namespace bridle {
namespace {

[[noreturn]] void refuse(const std::filesystem::path& path, const std::string& what) {
  throw InputError("data import", fmt::format("{}: {}", path.string(), what));
}

// The text between a key's colon and the next comma or brace outside of parentheses.
std::string value_of_key(const std::string& header, const std::string& key) {
  const size_t place = header.find("'" + key + "'");
  if (place == std::string::npos) return "";
  const size_t colon = header.find(':', place);
  if (colon == std::string::npos) return "";
  size_t end = colon + 1;
  for (int depth = 0; end < header.size(); ++end) {
    if (header[end] == '(') ++depth;
    if (header[end] == ')') --depth;
    if (depth == 0 && (header[end] == ',' || header[end] == '}')) break;
  }
  std::string text = header.substr(colon + 1, end - colon - 1);
  std::erase(text, ' ');
  return text;
}

std::vector<int64_t> shape_of(const std::filesystem::path& path, const std::string& text) {
  std::vector<int64_t> shape;
  if (text.size() < 2 || text.front() != '(' || text.back() != ')') refuse(path, "its header has no shape");
  for (size_t at = 1; at + 1 < text.size();) {
    int64_t size = 0;
    const auto [end, error] = std::from_chars(text.data() + at, text.data() + text.size(), size);
    if (error != std::errc() || size < 0 || size > (int64_t{1} << 40)) refuse(path, "its shape is " + text);
    shape.push_back(size);
    at = static_cast<size_t>(end - text.data());
    if (at < text.size() && text[at] == ',') ++at;
  }
  return shape;
}

at::Tensor read_npy(const std::filesystem::path& path) {
  static const std::map<std::string, at::ScalarType> kTypes{
      {"'<f8'", at::kDouble}, {"'<f4'", at::kFloat}, {"'<f2'", at::kHalf},
      {"'<i8'", at::kLong},   {"'<i4'", at::kInt},   {"'<i2'", at::kShort},
      {"'|i1'", at::kChar},   {"'|u1'", at::kByte},  {"'|b1'", at::kBool}};
  const std::string text = read_file(path);
  if (text.size() < 12 || !text.starts_with("\x93NUMPY")) refuse(path, "it is not a .npy file");
  const auto byte = [&](size_t i) { return static_cast<size_t>(static_cast<unsigned char>(text[i])); };
  const bool wide = byte(6) >= 2;
  const size_t start = wide ? 12 : 10;
  const size_t length =
      wide ? byte(8) | byte(9) << 8U | byte(10) << 16U | byte(11) << 24U : byte(8) | byte(9) << 8U;
  if (byte(6) < 1 || byte(6) > 3 || text.size() < start + length) refuse(path, "its header is cut off");
  const std::string header = text.substr(start, length);
  const std::string descr = value_of_key(header, "descr"), fortran = value_of_key(header, "fortran_order");
  const auto type = kTypes.find(descr);
  if (type == kTypes.end())
    refuse(path, fmt::format(
                     "its type must be a little-endian float or integer, got {}; save it with astype('<f4')",
                     descr));
  const std::vector<int64_t> shape = shape_of(path, value_of_key(header, "shape"));
  if (fortran != "False" && shape.size() > 1)
    refuse(path, "it must be in C order; save it with numpy.ascontiguousarray");
  const size_t each = c10::elementSize(type->second);
  double count = 1.0;
  for (const int64_t size : shape) count *= static_cast<double>(size);
  if (count * static_cast<double>(each) != static_cast<double>(text.size() - start - length))
    refuse(path, fmt::format("its shape ({}) needs {} bytes, and {} follow the header: it is cut off",
                             fmt::join(shape, ", "), count * static_cast<double>(each),
                             text.size() - start - length));
  std::string entries = text.substr(start + length);  // aligned
  if (count == 0.0) refuse(path, "it is empty");
  return at::from_blob(entries.data(), shape, type->second).clone();
}

}  // namespace

Table read_npy_pair(const VectorImport& options) {
  const at::Tensor x = read_npy(options.inputs), y = read_npy(options.targets);
  if (x.dim() < 2) refuse(options.inputs, "inputs must have the shape [N, …]");
  if (y.dim() < 1 || y.dim() > 2 || y.size(0) != x.size(0))
    refuse(options.targets, fmt::format("targets must have the shape [N] or [N, K] for {} examples, got [{}]",
                                        x.size(0), fmt::join(y.sizes(), ", ")));
  Table table{.inputs = x.to(at::kDouble).reshape({x.size(0), -1})};
  if (!table.inputs.isfinite().all().item<bool>()) refuse(options.inputs, "it holds NaN or infinity");
  for (int64_t i = 0; i < table.inputs.size(1); ++i) table.columns.push_back(fmt::format("x{}", i));
  if (options.regression) {
    table.targets = y.to(at::kDouble).reshape({y.size(0), -1});
    if (!table.targets.isfinite().all().item<bool>()) refuse(options.targets, "it holds NaN or infinity");
    for (int64_t i = 0; i < table.targets.size(1); ++i) table.outputs.push_back(fmt::format("y{}", i));
    return table;
  }
  if (y.is_floating_point() || y.numel() != y.size(0))
    refuse(options.targets,
           "classes must be integers, one per example; pass --regression for numbers to predict");
  std::vector<std::string> texts;
  const at::Tensor classes = y.to(at::kLong).reshape({-1});
  for (int64_t i = 0; i < classes.numel(); ++i) texts.push_back(std::to_string(classes[i].item<int64_t>()));
  table.targets = classes_of(texts, table.outputs);
  return table;
}

}  // namespace bridle
