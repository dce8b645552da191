#include "data/vector_source.h"

#include <ATen/TensorAccessor.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/from_blob.h>
#include <fmt/format.h>

#include <cstring>

#include "bridle/error.h"

namespace bridle {

VectorFile::VectorFile(const DataFile& file, const VectorLayout& layout, int64_t outputs)
    : file_(file.path, MappedFile::Access::random), layout_(layout), outputs_(outputs), count_(file.count) {
  const auto expected = static_cast<uint64_t>(count_) * static_cast<uint64_t>(width()) * sizeof(float);
  if (count_ < 1 || file_.bytes().size() != expected)
    throw InputError("data", fmt::format("{}: {} bytes are not {} rows of {} numbers; import it again",
                                         file.path.string(), file_.bytes().size(), count_, width()));
}

void VectorFile::copy_row(int64_t index, float* to) const {
  const auto row = static_cast<size_t>(width()) * sizeof(float);
  std::memcpy(to, file_.bytes().data() + static_cast<size_t>(index) * row, row);
}

void write_vector_file(const std::filesystem::path& path, const at::Tensor& inputs,
                       const at::Tensor& targets) {
  const at::Tensor last = targets.dim() == 1 ? targets.unsqueeze(1) : targets;
  const at::Tensor rows = at::cat({inputs.to(at::kFloat), last.to(at::kFloat)}, 1).contiguous();
  const auto values = rows.accessor<float, 2>();
  OutputFile file(path);
  std::vector<float> row(static_cast<size_t>(rows.size(1)));
  for (int64_t i = 0; i < rows.size(0); ++i) {
    for (int64_t j = 0; j < rows.size(1); ++j) row[static_cast<size_t>(j)] = values[i][j];
    file.write(std::as_bytes(std::span(row)));
  }
  file.close();
}

VectorSource::VectorSource(std::shared_ptr<const VectorFile> file, int64_t begin, int64_t end)
    : file_(std::move(file)), begin_(begin), end_(end) {
  if (size() < 1) throw InputError("data", "this part of the data is empty; hold out less");
}

Batch VectorSource::read(std::span<const int64_t> starts) const {
  const auto rows = static_cast<int64_t>(starts.size());
  const int64_t width = file_->width(), inputs = file_->layout().inputs;
  std::vector<float> values(starts.size() * static_cast<size_t>(width));
  for (size_t i = 0; i < starts.size(); ++i)
    file_->copy_row(begin_ + starts[i], values.data() + i * static_cast<size_t>(width));
  const at::Tensor all = at::from_blob(values.data(), {rows, width}, at::kFloat);
  const at::Tensor targets = all.narrow(1, inputs, width - inputs);
  if (file_->layout().regression) return {all.narrow(1, 0, inputs).clone(), targets.clone()};
  const at::Tensor labels = targets.reshape({rows}).to(at::kLong);
  if (labels.lt(0).logical_or(labels.ge(file_->outputs())).any().item<bool>())
    throw InputError(
        "data", fmt::format("a label is not one of 0 … {}; import the data again", file_->outputs() - 1));
  return {all.narrow(1, 0, inputs).clone(), labels};
}

}  // namespace bridle
