// Norms on their way into a certificate, and out of it again.
#pragma once

#include <set>
#include <vector>

#include "bridle/certify.h"
#include "nn/norms.h"

namespace bridle {

// Measures each norm once, adds a little room so that a proof on another machine succeeds as well, and remembers it. What
// it answers is what is stated.
class RecordingNorms : public WeightNorms {
 public:
  std::vector<double> head_scales(const Param& value, const Param& output, int64_t heads,
                                  const Price& price) override;
  const std::vector<WeightFacts>& facts() const { return facts_; }

 protected:
  std::vector<UpperBound> establish(const NormQuestion& question) override;

 private:
  WeightFacts& entry(const Param& weight);
  std::vector<WeightFacts> facts_;
  std::map<std::string, size_t> places_;  // of weights in facts_
};

// Answers with what is stated, once it is proved. Throws PromiseError for a number that is missing or too small.
class StatedNorms : public WeightNorms {
 public:
  explicit StatedNorms(const std::vector<WeightFacts>& facts);  // which it refers to
  std::vector<double> head_scales(const Param& value, const Param& output, int64_t heads,
                                  const Price& price) override;
  const std::vector<std::string>& loose() const { return loose_; }  // what could be smaller by a thousandth
  void refuse_unproved() const;                                     // after the walk; throws PromiseError

 protected:
  std::vector<UpperBound> establish(const NormQuestion& question) override;

 private:
  const WeightFacts* find(const std::string& name) const;
  std::map<std::string, const WeightFacts*> facts_;        // by weight
  std::map<std::string, std::vector<UpperBound>> proved_;  // by weight and question
  std::set<std::string> scaled_;                           // weights whose scales were asked for
  std::vector<std::string> loose_;
};

}  // namespace bridle
