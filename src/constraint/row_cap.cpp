// Tables: every row's RMS is capped at sigma_max; a row below it is left alone.
#include "bridle/constraint.h"
#include "constraint/guarantee.h"

namespace bridle {
namespace {

class RowCap : public Constraint {
 public:
  const char* name() const override { return "row_cap"; }
  Guarantee promise(const Param&, double sigma_max, const StepInfo&) const override {
    return {sigma_max, "every row is scaled to at most the cap, whatever the update"};
  }

 protected:
  Tensor project(const Task& task) override {
    const Tensor rms = task.weight.to(at::kDouble).square().mean(-1, true).sqrt();
    const double cap = task.cap / task.unit;  // rows have no fan-in: their RMS is what counts
    return task.weight.div(rms.div(cap).clamp_min(1.0)).to(task.weight.scalar_type());
  }
};

}  // namespace

std::unique_ptr<Constraint> make_row_cap() { return std::make_unique<RowCap>(); }

}  // namespace bridle
