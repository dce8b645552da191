// What every rank has, brought together on all of them. All ranks call these together.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "bridle/ranks.h"

namespace bridle {

// Rank r gives counts[r] numbers; all have all of them, in the order of the ranks.
std::vector<double> gather_numbers(Ranks& ranks, std::span<const double> own,
                                   std::span<const int64_t> counts);

std::vector<std::string> gather_texts(Ranks& ranks, const std::string& own);

// texts[r] of one rank goes to rank r, which has it back; what the others give is not read.
std::string text_from(Ranks& ranks, int64_t source, const std::vector<std::string>& texts);

// Named tensors as bytes, for the way between ranks; and back.
std::string tensors_to_text(const std::map<std::string, at::Tensor>& tensors);
std::map<std::string, at::Tensor> tensors_from_text(const std::string& text);

}  // namespace bridle
