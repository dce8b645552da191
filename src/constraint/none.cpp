// No constraint at all: the baseline that may diverge.
#include "constraint/guarantee.h"
#include "constraint/methods.h"

namespace bridle {
namespace {

class None : public Constraint {
 public:
  const char* name() const override { return "none"; }
  bool uses_cap() const override { return false; }
  Guarantee promise(const Param&, double, const StepInfo&) const override {
    return no_guarantee("nothing holds the weight back");
  }

 protected:
  Tensor project(const Task& task) override { return task.weight; }
};

}  // namespace

std::unique_ptr<Constraint> make_none(const ConstraintOptions&) { return std::make_unique<None>(); }

}  // namespace bridle
