#include "certify/fact_norms.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "bridle/error.h"
#include "bridle/linalg.h"

namespace bridle {
namespace {

// More than the rounding of another order of summation can take, less than anyone would notice.
constexpr double kRoom = 1.0 + 0x1p-30;
constexpr double kLoose = 1e-3;

double stated_value(const UpperBound& bound, NormKind kind) {
  return kind == NormKind::largest_entry ? bound.to_double() : (bound * kRoom).to_double();
}

std::string question_key(const std::string& what, const std::string& weight) {
  return fmt::format("{} of {}", what, weight);
}

// One proof at this very number: a zero matrix, too, is proved to have norm 0.
bool proved(const NormQuestion& question, size_t i, double stated) {
  if (question.kind != NormKind::spectral) return measure(question).at(i) <= UpperBound(stated);
  return prove_spectral_norm(question.values[static_cast<int64_t>(i)], stated);
}

}  // namespace

// ---- Into a certificate

WeightFacts& RecordingNorms::entry(const Param& weight) {
  const auto [place, is_new] = places_.try_emplace(weight.name, facts_.size());
  if (!is_new) return facts_[place->second];
  facts_.push_back({.name = weight.name, .shape = weight.tensor.sizes().vec(), .method = "sums"});
  return facts_.back();
}

std::vector<UpperBound> RecordingNorms::establish(const NormQuestion& question) {
  WeightFacts& facts = entry(question.weight);
  std::vector<double>& values = facts.numbers[question.what];
  // D in σ(D·W_Q) stands for one thing in a model, so one answer an entry is enough.
  if (values.empty()) {
    for (const UpperBound& bound : measure(question)) values.push_back(stated_value(bound, question.kind));
    if (question.kind == NormKind::spectral) facts.method = bound_method_name(BoundMethod::cholesky);
  }
  return {values.begin(), values.end()};
}

std::vector<double> RecordingNorms::head_scales(const Param& value, const Param& output, int64_t heads,
                                                const Price& price) {
  WeightFacts& facts = entry(output);
  std::vector<double> scales =
      facts.scales.empty() ? WeightNorms::head_scales(value, output, heads, price) : facts.scales;
  return facts.scales = scales;  // also where they are 1: the answers to come depend on them
}

// ---- And out of it

// What the walk did not ask for is not proved, so it may not be stated.
void StatedNorms::refuse_unproved() const {
  for (const auto& [name, entry] : facts_) {
    for (const auto& [what, values] : entry->numbers) {
      if (!proved_.contains(question_key(what, name)))
        throw PromiseError("check", fmt::format("{} of {} is stated, but nothing asks for it", what, name));
    }
    if (!entry->scales.empty() && !scaled_.contains(name))
      throw PromiseError("check", fmt::format("scales of {} are stated, but nothing asks for them", name));
  }
}

StatedNorms::StatedNorms(const std::vector<WeightFacts>& facts) {
  for (const WeightFacts& entry : facts) {
    if (!facts_.emplace(entry.name, &entry).second)
      throw PromiseError("check", fmt::format("there are two entries about {}", entry.name));
  }
}

const WeightFacts* StatedNorms::find(const std::string& name) const {
  const auto found = facts_.find(name);
  return found == facts_.end() ? nullptr : found->second;
}

std::vector<UpperBound> StatedNorms::establish(const NormQuestion& question) {
  const std::string key = question_key(question.what, question.weight.name);
  const WeightFacts* facts = find(question.weight.name);
  if (facts == nullptr || !facts->numbers.contains(question.what))
    throw PromiseError("check", fmt::format("{} is not stated", key));
  if (facts->shape != question.weight.tensor.sizes().vec())
    throw PromiseError("check", fmt::format("{} has another shape than is stated", question.weight.name));
  const std::vector<double>& stated = facts->numbers.at(question.what);
  const bool listed = question.kind == NormKind::spectral || question.kind == NormKind::row_euclidean;
  if (stated.size() != static_cast<size_t>(listed ? question.values.size(0) : 1))
    throw PromiseError("check", fmt::format("{} has {} numbers", key, stated.size()));
  if (const auto known = proved_.find(key); known != proved_.end()) return known->second;
  for (size_t i = 0; i < stated.size(); ++i) {
    if (!(stated[i] >= 0.0 && std::isfinite(stated[i])))
      throw PromiseError("check", fmt::format("{} is {}; it is no bound", key, stated[i]));
    if (!proved(question, i, stated[i]))
      throw PromiseError("check", fmt::format("{} is stated as {}, which cannot be proved", key, stated[i]));
  }
  for (size_t i = 0; i < stated.size(); ++i) {
    if (stated[i] == 0.0 || !proved(question, i, stated[i] * (1.0 - kLoose))) continue;
    loose_.push_back(fmt::format("{} is stated as {}; a smaller number holds", key, stated[i]));
    break;
  }
  return proved_[key] = {stated.begin(), stated.end()};
}

std::vector<double> StatedNorms::head_scales(const Param& /*value*/, const Param& output, int64_t heads,
                                             const Price& /*price*/) {
  const WeightFacts* facts = find(output.name);
  scaled_.insert(output.name);
  if (facts == nullptr || facts->scales.empty()) return std::vector<double>(static_cast<size_t>(heads), 1.0);
  for (const double scale : facts->scales) {
    if (!(scale > 0.0 && std::isfinite(scale)) || static_cast<double>(static_cast<float>(scale)) != scale)
      throw PromiseError("check",
                         fmt::format("the scales of {} hold {}, which is not a positive float32 number",
                                     output.name, scale));
  }
  if (facts->scales.size() != static_cast<size_t>(heads))
    throw PromiseError(
        "check", fmt::format("{} has {} scales for {} heads", output.name, facts->scales.size(), heads));
  return facts->scales;
}

}  // namespace bridle
