// Numbers with names: what a CSV file, a pair of .npy files or a folder of images comes to, before it is standardised.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "bridle/data.h"

namespace bridle {

struct Table {
  std::vector<std::string> columns = {};  // of inputs
  at::Tensor inputs = {};                 // float64, [N, D], finite
  at::Tensor targets = {};                // classes in int64, [N]; regression: float64, [N, K], finite
  std::vector<std::string> outputs = {};  // names of classes, or of numbers to predict
};

// Throw InputError, naming the file, the line and the column, for whatever is not as it must be.
Table read_csv(const VectorImport& options);
Table read_npy_pair(const VectorImport& options);
Table read_image_folder(const VectorImport& options);

// Classes 0 … by their distinct texts, in order: numbers by size where all are numbers. Throws InputError for fewer than two.
at::Tensor classes_of(const std::vector<std::string>& texts, std::vector<std::string>& names);

}  // namespace bridle
