// Weight constraints: each maps a weight to one whose singular values obey a rule, after every optimizer
// step, and says what norm it guarantees. All work in RMS→RMS units, on the whole matrix or on each of the
// Param's row blocks.
//
//   Enforcer enforcer(weight, {.method = "soft_cap"}, 2.0);
//   enforcer.start_();                                // once: weights that begin outside are brought inside
//   ... optimizer step ...
//   enforcer.enforce_(step);                          // the method itself
//   enforcer.prove_and_repair_();                     // σ(W) ≤ 2.0 is now proved, whatever rounding did
//
// A method of your own is a subclass of Constraint with name, project and promise: tests/constraint/enforcer_test.cpp has one.
#pragma once

#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bridle/linalg.h"
#include "bridle/param.h"

namespace bridle {

struct ConstraintOptions {
  std::string method = "soft_cap";  // one of constraint_names(), or a name that the paper's code uses
  double spectral_decay = 0.05;  // spectral_weight_decay: the share of σ₁ taken off each step (not times η)
  double floor = 0.0;            // clip: the lower end α of [α, σ_max]
  double clip_decay = 0.1;  // clipped_weight_decay: λ, the share of the excess over σ_max taken off each step
  double parseval_strength = 0.1;  // parseval: β of (1 + β)x − βx³
  int64_t power_rounds = 16;       // rounds of power iteration a step, for the methods that use it
  std::optional<at::ScalarType> product_dtype = {};  // precision of the products; default: the weight's own
};

// A statement in exact arithmetic: a weight whose norm is at most `norm` before a step as described by the
// StepInfo is again at most `norm` after the step and the constraint. Nothing is said where `norm` is empty.
struct Guarantee {
  std::optional<double> norm;
  std::string reason;
};

// FLOP of matrix products.
struct ProductFlop {
  double all = 0.0;
  double bfloat16 = 0.0;  // of these

  ProductFlop& operator+=(const ProductFlop& other) {
    all += other.all;
    bfloat16 += other.bfloat16;
    return *this;
  }
};

class Constraint {
 public:
  virtual ~Constraint() = default;

  virtual const char* name() const = 0;

  // Projects the weight in place. Throws InputError for a cap that is not positive and for an optimizer
  // without an update bound where the method needs one; NumericError for NaN and Inf. The weight is untouched
  // then.
  void apply_(const Param& param, double sigma_max, const StepInfo& step);

  // Throws InputError like apply_.
  Guarantee guarantee(const Param& param, double sigma_max, const StepInfo& step) const;

  // True for methods that only work for updates of known norm, and so refuse AdamW.
  virtual bool needs_update_bound() const { return false; }
  // False for methods that do not look at sigma_max.
  virtual bool uses_cap() const { return true; }

  // How much of the result comes out of products, as a share of the cap, for a weight that can have reached so many times the
  // cap: what rounding factors to bfloat16 can spoil.
  virtual double product_share(double /*reach*/) const { return 0.0; }
  // The precision of those products, where it is not the weight's own.
  virtual std::optional<at::ScalarType> product_dtype() const { return std::nullopt; }

  // Of one application to blocks [b, m, n]; nothing where it multiplies no matrices, or nobody has counted.
  virtual ProductFlop product_flop(const Tensor& /*blocks*/) const { return {}; }

  // False for methods whose result is finite for every finite weight; polynomials may overflow far outside the cap.
  virtual bool may_overflow() const { return true; }

  // What the method keeps between steps, for checkpoints; undefined where it keeps nothing.
  virtual Tensor state() const { return {}; }
  virtual void set_state(const Tensor& /*state*/) {}

 protected:
  // What a method sees: the blocks [b, m, n] (one whole matrix comes as [m, n]), the cap and the largest norm
  // the step can have reached, both as ordinary spectral norms of a block.
  struct Task {
    Tensor weight;
    double cap;
    double reach;  // infinite where the optimizer knows no update bound
    double unit;   // the spectral norm of a block whose RMS→RMS norm is 1
  };
  // Returns a new tensor, or the task's own weight where nothing changes; never changes it.
  virtual Tensor project(const Task& task) = 0;
  virtual Guarantee promise(const Param& param, double sigma_max, const StepInfo& step) const = 0;

 private:
  void check(const Param& param, double sigma_max, const StepInfo& step) const;
};

// Throws InputError, naming the nearest known method, for an unknown name.
std::unique_ptr<Constraint> make_constraint(const ConstraintOptions& options);

// Rows of a table (embeddings) capped at RMS sigma_max: what stands in for every method on tables.
std::unique_ptr<Constraint> make_row_cap();

std::vector<std::string> constraint_names();

// Brings the weight below sigma_max by the verified bound, in its stored precision: a scaling of the blocks
// (rows of a table) that are above, repeated with a growing margin until the proof holds. Returns true if
// anything changed. Throws PromiseError where no scaling helps (NaN, Inf).
bool seal_(const Param& param, double sigma_max);

// True only if every block (every row of a table) is proved to be at most sigma_max. Throws InputError for a cap that
// is not positive and finite.
bool prove_norm(const Param& param, double sigma_max);

// The largest RMS→RMS norm of the weight's blocks (the largest RMS of a table's rows), never too small; none for NaN
// and Inf.
std::optional<UpperBound> norm_bound(const Param& param);

// Enforce, prove, repair: one weight, its constraint and the cap in force.
class Enforcer {
 public:
  // A method by its name; tables get the row cap, whatever the method. Throws InputError for an unknown method, for a role
  // that has no norm to constrain and, where the method uses the cap, for one that is not positive and finite.
  Enforcer(const Param& param, const ConstraintOptions& options, double sigma_max);

  // Any constraint, such as a subclass of your own.
  Enforcer(Param param, std::unique_ptr<Constraint> constraint, double sigma_max);

  // Brings initial weights inside the set: singular values above the cap are lowered to it, less the margin.
  void start_();

  // The method, aimed a little below the cap so that rounding does not lead above it.
  void enforce_(const StepInfo& step);

  // Proves norm ≤ cap; where the proof fails, seals the weight at the cap less the margin. Returns true if it had to.
  // Throws PromiseError where that fails too.
  bool prove_and_repair_();

  bool prove() const { return prove_norm(param_, sigma_max_); }
  Guarantee guarantee(const StepInfo& step) const;  // of the method, for the cap in force

  const Param& param() const { return param_; }
  double cap() const { return sigma_max_; }
  void set_cap(double sigma_max);  // in force from now on; throws InputError like the constructor
  int64_t repairs() const { return repairs_; }
  Constraint& constraint() { return *constraint_; }
  const Constraint& constraint() const { return *constraint_; }

  // The share of the cap left to rounding, for weights and products of these types.
  static double margin(at::ScalarType weight, at::ScalarType products);

 private:
  double aim_below(double reach = std::numeric_limits<double>::infinity()) const;

  Param param_;
  std::unique_ptr<Constraint> constraint_;
  double sigma_max_ = 0.0;
  int64_t repairs_ = 0;
};

}  // namespace bridle
