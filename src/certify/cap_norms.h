// What caps in force promise about the norms of weights, whatever the weights are.
#pragma once

#include <vector>

#include "bridle/nn.h"

namespace bridle {

class CapNorms : public NormSource {
 public:
  // Params with the row blocks that are capped for themselves, and a cap each, in RMS→RMS units (the RMS of a row for
  // tables); 0: nothing caps it.
  CapNorms(const std::vector<Param>& params, const std::vector<double>& caps)
      : params_(params), caps_(caps) {}

  UpperBound matrix(const Param& weight) override;
  std::vector<UpperBound> heads(const Param& weight, int64_t heads) override;
  UpperBound scaled_heads(const Param& weight, std::span<const UpperBound> scales) override;
  UpperBound scaled_columns(const Param& weight, std::span<const double> scales) override;
  std::vector<double> head_scales(const Param& value, const Param& output, int64_t heads,
                                  const Price& price) override;
  UpperBound largest_row_rms(const Param& table) override;
  UpperBound largest_entry(const Param& vector) override;
  UpperBound euclidean(const Param& vector) override;
  std::vector<UpperBound> euclidean_heads(const Param& vector, int64_t heads) override;
  std::optional<Entries> entries(const Param& /*weight*/) override { return std::nullopt; }

 private:
  struct Capped {
    const Param& param;
    UpperBound cap;
  };
  Capped find(const Param& weight) const;        // throws PromiseError where nothing caps it
  static UpperBound block(const Capped& entry);  // σ of one of its row blocks

  const std::vector<Param>& params_;
  const std::vector<double>& caps_;
};

}  // namespace bridle
