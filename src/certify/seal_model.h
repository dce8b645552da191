// Sealing a whole model: every weight is brought below its cap, in the precision it is stored in.
#pragma once

#include <string>
#include <vector>

#include "bridle/nn.h"

namespace bridle {

// Caps whose sound bound is at most `lipschitz`: the norms that the weights have, times the largest factor up to 1 that
// does it. `params` are the model's, with row blocks. Throws InputError where no factor does.
std::vector<double> caps_within(const Model& model, const std::vector<Param>& params, double lipschitz);

// The names of the weights that had to be changed. Throws PromiseError where a weight cannot be scaled below its cap.
std::vector<std::string> seal_model_(const std::vector<Param>& params, const std::vector<double>& caps);

}  // namespace bridle
