// Random tokens or pixels in the shapes of a recipe: a step's time depends on little else.
#pragma once

#include "bridle/train.h"

namespace bridle {

// What stands in for a data set that is not here: as many outputs as the model names, else 65 tokens or 10 classes.
DataSet random_data_set(const RunOptions& options);

// Of resolved options.
std::shared_ptr<const Source> random_source(const RunOptions& options);

}  // namespace bridle
