// Stiefel projection, W ← σ_max·orthogonalize(W): every singular value goes to the cap.
#include "constraint/guarantee.h"
#include "constraint/methods.h"
#include "constraint/product_flop.h"

namespace bridle {
namespace {

class Stiefel : public Constraint {
 public:
  explicit Stiefel(const ConstraintOptions& options) : products_(options.product_dtype) {}
  const char* name() const override { return "stiefel"; }
  double product_share(double /*reach*/) const override { return 1.0; }
  std::optional<at::ScalarType> product_dtype() const override { return products_; }
  ProductFlop product_flop(const Tensor& blocks) const override {
    return polynomial_flop(blocks, polynomials(Coefficients::six_step),
                           products_.value_or(blocks.scalar_type()));
  }
  Guarantee promise(const Param&, double sigma_max, const StepInfo&) const override {
    return {sigma_max, "the six-step list never exceeds 1"};
  }

 protected:
  Tensor project(const Task& task) override {
    return orthogonalize(task.weight, Coefficients::six_step, products_).mul_(task.cap);
  }

 private:
  std::optional<at::ScalarType> products_;
};

}  // namespace

std::unique_ptr<Constraint> make_stiefel(const ConstraintOptions& options) {
  return std::make_unique<Stiefel>(options);
}

}  // namespace bridle
