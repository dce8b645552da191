// Imported vectors: rows of float32, a row's inputs and then its class or its numbers to predict.
#pragma once

#include <memory>

#include "base/files.h"
#include "bridle/data.h"

namespace bridle {

class VectorFile {
 public:
  // Throws InputError where the file's size is not that of its rows.
  VectorFile(const DataFile& file, const VectorLayout& layout, int64_t outputs);
  int64_t size() const { return count_; }
  const VectorLayout& layout() const { return layout_; }
  int64_t outputs() const { return outputs_; }
  int64_t width() const { return layout_.inputs + (layout_.regression ? outputs_ : 1); }
  void copy_row(int64_t index, float* to) const;

 private:
  MappedFile file_;
  VectorLayout layout_;
  int64_t outputs_, count_;
};

// Writes rows that VectorFile reads. `targets`: classes in int64, [N], or numbers, [N, K].
void write_vector_file(const std::filesystem::path& path, const at::Tensor& inputs,
                       const at::Tensor& targets);

class VectorSource : public Source {
 public:
  VectorSource(std::shared_ptr<const VectorFile> file, int64_t begin, int64_t end);
  int64_t size() const override { return end_ - begin_; }
  int64_t stride() const override { return 1; }
  Batch read(std::span<const int64_t> starts) const override;

 private:
  std::shared_ptr<const VectorFile> file_;
  int64_t begin_, end_;
};

}  // namespace bridle
