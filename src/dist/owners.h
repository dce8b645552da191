// Every weight has one owner among the ranks: the one that keeps its momentum, steps, constrains, proves and repairs it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace bridle {

// Largest first, each to the rank that has least so far, the lowest of equals. `costs` are those of a step, one per weight.
std::vector<int64_t> owners_by_cost(std::span<const double> costs, int64_t ranks);

}  // namespace bridle
