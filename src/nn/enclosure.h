// A signal computed in float64, with bounds of its distance from what exact arithmetic gives and of what programs in other
// precisions give, at the same input and at every input near it. Every module has `enclose` beside `forward` and
// `bound`; what it adds is proved in docs/theory/forward_error.md.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "bridle/nn.h"

namespace bridle {

// How far one operation of a precision may be from exact.
struct Arithmetic {
  const char* name = "float64";
  at::ScalarType dtype = at::kDouble;
  double unit = 0x1p-53;          // relative, of a result as it is stored
  double sum_unit = 0x1p-53;      // relative, of a step inside the sums of linear layers, softmax and means
  double batched_unit = 0x1p-53;  // relative, of a step inside the sums of attention's batched products
  double least = 0x1p-1022;   // absolute, of a result that underflows or an operand that is flushed to zero
  double largest = 0x1p1020;  // beyond this a result may have overflowed: nothing is known

  static Arithmetic float64() { return {}; }
  static Arithmetic float32() {
    return {"float32", at::kFloat, 0x1p-24, 0x1p-24, 0x1p-24, 0x1p-126, 0x1p124};
  }
  // Results are rounded to 8 bits; linear layers and softmax add up in float32, but small batched products do not
  // everywhere.
  static Arithmetic bfloat16() {
    return {"bfloat16", at::kBFloat16, 0x1p-8, 0x1p-24, 0x1p-8, 0x1p-126, 0x1p124};
  }
};

// True where this build's bfloat16 linear layers add up in float32, which `Arithmetic::bfloat16` is about.
bool bfloat16_layers_add_in_float32();
bool adds_in_float32(const std::function<at::Tensor(const at::Tensor& x, const at::Tensor& w)>& layer);

// A program, and how far its input may be from the one that the float64 pass has seen: Euclidean, for every token.
struct ProgramCase {
  Arithmetic arithmetic = {};
  double radius = 0.0;
};

// Distances are Euclidean, of every row of `values`; K cases come first. x′ is any input within the case's radius of x.
struct Enclosure {
  at::Tensor values = {};  // float64, [rows…, n], at x
  at::Tensor reach = {};   // [K, rows…]: between the exact signals at x and at x′
  at::Tensor error = {};   // [K, rows…]: between the program's and the exact signal, both at x′
};

// At the logits, before a soft cap: it keeps their order, so predictions are the same. `reach` and `input_error` are those of the head's input, which moves a difference of two logits by at most
// γ|w_i − w_j| times as much; `own_error` is what the head itself adds to any logit, and `error` all of a logit's, after a soft
// cap too. A soft cap may round two logits of a program to one number: `own_error` is infinite then, but for the float64 pass.
struct LogitEnclosure {
  at::Tensor logits = {};       // float64, [rows…, V]
  at::Tensor reach = {};        // [K, rows…]
  at::Tensor input_error = {};  // [K, rows…]
  at::Tensor own_error = {};    // [K, rows…]
  at::Tensor error = {};        // [K, rows…]
};

// What a product's error depends on, by block of rows.
struct ProductNorms {
  at::Tensor spectral = {};   // [blocks]
  at::Tensor frobenius = {};  // [blocks]
  at::Tensor rounded = {};  // [K, blocks]: σ of what rounding the weight to the program's precision changes
};

class ErrorWalk {
 public:
  // The first case is always the float64 pass itself at x itself; the others follow it.
  explicit ErrorWalk(const std::vector<ProgramCase>& cases = {});

  size_t cases() const { return cases_.size(); }

  // Where inputs have been rounded on their way to the model: relative·|x| + absolute.
  struct InputError {
    double relative = 0.0;
    double absolute = 0.0;
  };
  InputError input_error = {};
  // Of the documents of the inputs to come, as Pass has them; undefined where there are none.
  at::Tensor begins = {};
  // After each layer the reach of a case is at most this, where it is given.
  std::vector<std::map<std::string, double>> reach_limits = {};
  // The largest RMS over rows after each layer, exact and at x itself, for all that was walked.
  std::map<std::string, UpperBound> activations = {};

  Enclosure start(const at::Tensor& embedded) const;
  // After a layer.
  Enclosure record(const std::string& name, Enclosure x);

  // ---- For modules

  // A field of every case as a factor for [K, …] with so many dimensions.
  at::Tensor unit(int64_t dimensions) const { return column(&Arithmetic::unit, dimensions); }
  at::Tensor sum_unit(int64_t dimensions) const { return column(&Arithmetic::sum_unit, dimensions); }
  at::Tensor least(int64_t dimensions) const { return column(&Arithmetic::least, dimensions); }
  // γ_terms of sums.
  at::Tensor sum_error(int64_t terms, int64_t dimensions) const {
    return growth(&Arithmetic::sum_unit, terms, dimensions);
  }
  at::Tensor batched_sum_error(int64_t terms, int64_t dimensions) const {
    return growth(&Arithmetic::batched_unit, terms, dimensions);
  }
  // 0 where a program has this scalar with a relative error of one unit; infinity where it becomes 0, infinite or denormal.
  at::Tensor scalar_error(double scalar, int64_t dimensions) const;
  // Relative, of a weight of this type in the program's precision.
  at::Tensor cast_error(at::ScalarType stored, int64_t dimensions) const;

  // How large the program's signal may be at x′: [K, rows…].
  at::Tensor size(const Enclosure& x) const;
  // A result with the error that it has before it is stored; storing rounds it.
  Enclosure stored(const at::Tensor& values, const at::Tensor& reach, const at::Tensor& error) const;
  // No error is known where `size` may have overflowed.
  at::Tensor guarded(const at::Tensor& error, const at::Tensor& size) const;

  // Proved norms of a weight in equal row blocks; measured once.
  const ProductNorms& norms(const Param& weight, int64_t blocks);

 private:
  at::Tensor column(double Arithmetic::*field, int64_t dimensions) const;
  at::Tensor growth(double Arithmetic::*field, int64_t terms, int64_t dimensions) const;
  std::vector<ProgramCase> cases_;
  std::map<std::pair<std::string, int64_t>, ProductNorms> norms_;
};

// |values| of every row, never too small: [rows…, n] → [rows…].
at::Tensor row_lengths(const at::Tensor& values);

// A nonnegative number that was computed in float64 by sums, products, quotients and roots of nonnegative numbers, with no
// more than 2^25 terms per sum, made not smaller than the exact one.
at::Tensor raised(const at::Tensor& computed);

// W x (+ b) in `blocks` blocks of rows: [B, T, n] → [B, blocks, T, m/blocks]; for 0 blocks [rows…, m], one distance per row.
Enclosure enclose_product(const Enclosure& x, const Param& weight, const Param* bias, int64_t blocks,
                          ErrorWalk& walk);

// The head's rows, times `scale`, plus a bias.
struct LogitLayer {
  const Param& rows;
  double scale = 1.0;
  const Param* bias = nullptr;
  double soft_cap = 0.0;  // c: logits z become c·tanh(z/c); 0: they stay
};
LogitEnclosure enclose_logits(const Enclosure& x, const LogitLayer& layer, ErrorWalk& walk);

}  // namespace bridle
