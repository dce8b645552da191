#include "nn/enclosure.h"

#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "bridle/error.h"
#include "bridle/linalg.h"

namespace bridle {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kRaise = 1.0 + 0x1p-20;
constexpr double kTiny = 0x1p-500;  // what squares that underflow take from a root, and much more

at::Tensor as_column(const std::vector<double>& values, int64_t dimensions) {
  std::vector<int64_t> shape(static_cast<size_t>(dimensions), 1);
  shape.front() = static_cast<int64_t>(values.size());
  return at::tensor(values, at::kDouble).view(shape);
}

at::Tensor exact(const at::Tensor& weight) { return weight.detach().to(at::kDouble); }

// σ of each matrix of [blocks, m, n], proved.
at::Tensor spectral_bounds(const at::Tensor& matrices, const std::string& name) {
  std::vector<double> values;
  for (const auto& bound : spectral_norm_bounds(matrices, {.excess = 1e-5})) {
    if (!bound)
      throw PromiseError("certify",
                         fmt::format("no bound of {} can be established: it holds NaN or infinity", name));
    values.push_back(bound->value.to_double());
  }
  return at::tensor(values, at::kDouble);
}

}  // namespace

// Large terms first and their negatives last, in as many places as a kernel may have accumulators: one that keeps its sum in
// bfloat16 loses the ones between them, since 256 + 1 is 256 there.
bool adds_in_float32(const std::function<at::Tensor(const at::Tensor& x, const at::Tensor& w)>& layer) {
  constexpr int64_t places = 64;
  for (const int64_t ones : {64, 256, 1024, 4096}) {
    const at::Tensor x = at::ones({3, ones + 2 * places}, at::kBFloat16);
    x.narrow(1, 0, places).fill_(256.0);
    x.narrow(1, ones + places, places).fill_(-256.0);
    for (const int64_t rows : {1, 3}) {
      for (const int64_t outputs : {1, 5, 64}) {
        const at::Tensor w = at::ones({outputs, x.size(1)}, at::kBFloat16);
        if (!layer(x.narrow(0, 0, rows), w).eq(ones).all().item<bool>()) return false;
        if (!layer(x.narrow(0, 0, rows).unsqueeze(0), w).eq(ones).all().item<bool>()) return false;
      }
    }
  }
  return true;
}

bool bfloat16_layers_add_in_float32() {
  const bool plain =
      adds_in_float32([](const at::Tensor& x, const at::Tensor& w) { return at::linear(x, w); });
  return plain && adds_in_float32([](const at::Tensor& x, const at::Tensor& w) {
           return at::linear(x, w, at::zeros({w.size(0)}, at::kBFloat16));
         });
}

at::Tensor raised(const at::Tensor& computed) { return computed.mul(kRaise).add(kTiny); }

at::Tensor row_lengths(const at::Tensor& values) { return raised(values.square().sum(-1).sqrt()); }

ErrorWalk::ErrorWalk(const std::vector<ProgramCase>& cases) : cases_{ProgramCase{}} {
  cases_.insert(cases_.end(), cases.begin(), cases.end());
}

at::Tensor ErrorWalk::column(double Arithmetic::*field, int64_t dimensions) const {
  std::vector<double> values;
  for (const ProgramCase& own : cases_) values.push_back(own.arithmetic.*field);
  return as_column(values, dimensions);
}

at::Tensor ErrorWalk::growth(double Arithmetic::*field, int64_t terms, int64_t dimensions) const {
  std::vector<double> values;
  for (const ProgramCase& own : cases_) {
    const double all = static_cast<double>(terms) * (own.arithmetic.*field);
    values.push_back(all < 0.5 ? kRaise * all / (1.0 - all) : kInfinity);
  }
  return as_column(values, dimensions);
}

at::Tensor ErrorWalk::scalar_error(double scalar, int64_t dimensions) const {
  std::vector<double> values;
  const double size = std::abs(scalar);
  for (const ProgramCase& own : cases_) {
    const bool normal = size == 0.0 || (size >= own.arithmetic.least && size <= own.arithmetic.largest);
    values.push_back(normal ? 0.0 : kInfinity);
  }
  return as_column(values, dimensions);
}

at::Tensor ErrorWalk::cast_error(at::ScalarType stored, int64_t dimensions) const {
  std::vector<double> values;
  for (const ProgramCase& own : cases_) {
    const bool rounds = own.arithmetic.dtype == at::kBFloat16 && stored != at::kBFloat16;
    values.push_back(rounds ? own.arithmetic.unit : 0.0);
  }
  return as_column(values, dimensions);
}

at::Tensor ErrorWalk::size(const Enclosure& x) const {
  return raised(row_lengths(x.values).add(x.error[0]).add(x.reach).add(x.error));
}

at::Tensor ErrorWalk::guarded(const at::Tensor& error, const at::Tensor& size) const {
  const at::Tensor fits = size.le(column(&Arithmetic::largest, size.dim()));  // false for NaN
  return error.masked_fill(fits.logical_not(), kInfinity);
}

Enclosure ErrorWalk::stored(const at::Tensor& values, const at::Tensor& reach,
                            const at::Tensor& error) const {
  const at::Tensor length = row_lengths(values);
  const at::Tensor off = error[0].add(length, 0x1p-52);  // the float64 result is rounded already
  const at::Tensor size = raised(length.add(off).add(reach).add(error));
  const double root = std::sqrt(static_cast<double>(values.size(-1)));
  const at::Tensor rounded = error.add(size.mul(unit(size.dim()))).add(least(size.dim()).mul(root));
  return {values, raised(reach), guarded(raised(rounded), size)};
}

Enclosure ErrorWalk::start(const at::Tensor& embedded) const {
  const at::Tensor length = row_lengths(embedded);
  std::vector<at::Tensor> reach, error;
  for (const ProgramCase& own : cases_) {
    const bool narrow = own.arithmetic.dtype == at::kBFloat16;
    const double relative = input_error.relative + (narrow ? own.arithmetic.unit : 0.0);
    const double flushed = own.arithmetic.least * std::sqrt(static_cast<double>(embedded.size(-1)));
    const at::Tensor rounded =
        raised(length.add(own.radius).mul(relative).add(input_error.absolute + flushed));
    const bool as_given =
        own.arithmetic.dtype == at::kDouble && relative == 0.0 && input_error.absolute == 0.0;
    reach.push_back(at::full_like(length, own.radius));
    error.push_back(as_given ? at::zeros_like(length) : rounded);
  }
  const Enclosure x{embedded, at::stack(reach), at::stack(error)};
  return {x.values, x.reach, guarded(x.error, size(x))};
}

Enclosure ErrorWalk::record(const std::string& name, Enclosure x) {
  const double root = std::sqrt(static_cast<double>(x.values.size(-1)));
  const double largest = raised(row_lengths(x.values).add(x.error[0])).max().item<double>();
  const UpperBound rms = std::isnan(largest) ? UpperBound::unbounded() : UpperBound(largest / root * kRaise);
  activations[name] = max(activations[name], rms);
  if (reach_limits.empty()) return x;
  std::vector<double> limits;
  for (const auto& of_case : reach_limits) {
    const auto limit = of_case.find(name);
    limits.push_back(limit == of_case.end() ? kInfinity : limit->second);
  }
  const at::Tensor limit = as_column(limits, x.reach.dim());
  x.reach = at::where(x.reach.le(limit), x.reach, limit);  // also where it is NaN
  return x;
}

const ProductNorms& ErrorWalk::norms(const Param& weight, int64_t blocks) {
  const auto key = std::make_pair(weight.name, blocks);
  if (const auto known = norms_.find(key); known != norms_.end()) return known->second;
  const auto in_blocks = [&](const at::Tensor& values) {
    return values.view({blocks, weight.tensor.size(0) / blocks, weight.tensor.size(1)});
  };
  const at::Tensor values = exact(weight.tensor);
  ProductNorms result{.spectral = spectral_bounds(in_blocks(values), weight.name),
                      .frobenius = raised(in_blocks(values).square().sum({1, 2}).sqrt())};
  std::map<at::ScalarType, at::Tensor> by_type;  // a precision serves several cases
  std::vector<at::Tensor> rounded;
  for (const ProgramCase& own : cases_) {
    at::Tensor& of_type = by_type[own.arithmetic.dtype];
    if (!of_type.defined()) {
      const at::Tensor change = exact(weight.tensor.detach().to(own.arithmetic.dtype)).sub(values);
      const bool none = change.eq(0.0).all().item<bool>(), finite = change.isfinite().all().item<bool>();
      of_type = none || !finite ? at::full({blocks}, none ? 0.0 : kInfinity, at::kDouble)
                                : spectral_bounds(in_blocks(change), weight.name);
    }
    rounded.push_back(of_type);
  }
  result.rounded = at::stack(rounded);
  return norms_[key] = result;
}

namespace {

// ‖|W||x|‖ of every row and block, never too small: in float32, whose rounding of nonnegative sums is small and enlarged
// away; what it flushes to zero is added, and what overflows is infinite.
at::Tensor absolute_product(const at::Tensor& x, const at::Tensor& w, int64_t blocks) {
  at::Tensor products = at::linear(x.abs().to(at::kFloat), w.abs().to(at::kFloat)).to(at::kDouble);
  if (blocks != 0) products = products.view({products.size(0), products.size(1), blocks, -1}).transpose(1, 2);
  const auto n = static_cast<double>(w.size(1));
  const double rounding = (n + 4.0) * 0x1p-23;
  if (rounding > 0.25) return at::full_like(products.select(-1, 0), kInfinity);
  const double entries = w.abs().max().item<double>() + x.abs().max().item<double>() + 1.0;
  const double flushed = 4.0 * 0x1p-126 * entries * n * std::sqrt(static_cast<double>(products.size(-1)));
  return raised(row_lengths(products).mul(1.0 + 2.0 * rounding).add(flushed));
}

}  // namespace

Enclosure enclose_product(const Enclosure& x, const Param& weight, const Param* bias, int64_t blocks,
                          ErrorWalk& walk) {
  const at::Tensor w = exact(weight.tensor);
  at::Tensor values =
      bias == nullptr ? at::linear(x.values, w) : at::linear(x.values, w, exact(bias->tensor));
  const int64_t parts = blocks == 0 ? 1 : blocks;
  const ProductNorms& norms = walk.norms(weight, parts);
  at::Tensor reach = x.reach, error = x.error, size = walk.size(x), length = row_lengths(x.values);
  at::Tensor spectral = norms.spectral, frobenius = norms.frobenius, rounded = norms.rounded;
  at::Tensor offset = bias == nullptr ? at::full({parts}, 0.0, at::kDouble)
                                      : row_lengths(exact(bias->tensor).view({parts, -1}));
  const auto per_block = [&](const at::Tensor& t) {  // [blocks] or [K, blocks] → against [K, B, blocks, T]
    return t.dim() == 1 ? t.view({1, 1, -1, 1}) : t.view({t.size(0), 1, -1, 1});
  };
  if (blocks == 0) {
    rounded = rounded.view({-1}).view(walk.unit(error.dim()).sizes());
  } else {
    values = values.view({values.size(0), values.size(1), blocks, -1}).transpose(1, 2);
    reach = reach.unsqueeze(2), error = error.unsqueeze(2), size = size.unsqueeze(2),
    length = length.unsqueeze(1);
    spectral = per_block(spectral), frobenius = per_block(frobenius), rounded = per_block(rounded);
    offset = per_block(offset);
  }
  const int64_t n = w.size(1), rows = w.size(0) / parts, dimensions = error.dim();
  const at::Tensor largest = frobenius.mul(size).add(offset);  // no partial sum is larger
  // |W||x_p| at the program's x_p: at x̂, and as far away as that may be.
  const at::Tensor here = absolute_product(x.values, w, blocks);
  const at::Tensor away = raised(x.error[0].add(x.reach).add(x.error));
  const at::Tensor most = frobenius.squeeze(0).mul(length);
  const at::Tensor known = at::where(here.le(most), here, most);  // also where float32 has overflowed
  const at::Tensor terms = known.add(frobenius.mul(blocks == 0 ? away : away.unsqueeze(2)));
  const at::Tensor whole = terms.mul(walk.unit(dimensions).add(1.0)).add(offset);
  // Results that underflow, and entries of the weight and of x that are flushed to zero.
  const double across = std::sqrt(static_cast<double>(n)), down = std::sqrt(static_cast<double>(rows));
  const at::Tensor flushed =
      size.mul(across * down).add(frobenius.mul(across)).add(static_cast<double>(n + 4) * down);
  at::Tensor total = error.mul(spectral)
                         .add(rounded.mul(size))
                         .add(walk.sum_error(n + 4, dimensions).mul(whole))
                         .add(walk.least(dimensions).mul(flushed));
  if (bias != nullptr) total = total.add(walk.cast_error(bias->tensor.scalar_type(), dimensions).mul(offset));
  total = walk.guarded(raised(total), raised(largest.add(frobenius)));
  return walk.stored(values, raised(reach.mul(spectral)), total);
}

LogitEnclosure enclose_logits(const Enclosure& x, const LogitLayer& layer, ErrorWalk& walk) {
  const at::Tensor rows = exact(layer.rows.tensor);
  const at::Tensor size = walk.size(x);
  const int64_t n = rows.size(1), dimensions = size.dim();
  const double longest = row_lengths(rows).max().item<double>();
  const double scale = std::abs(layer.scale);
  const double added = layer.bias == nullptr ? 0.0 : exact(layer.bias->tensor).abs().max().item<double>();
  at::Tensor logits = at::linear(x.values, rows);
  if (layer.scale != 1.0) logits = logits.mul(layer.scale);
  if (layer.bias != nullptr) logits = logits.add(exact(layer.bias->tensor));
  // One logit: |w·x| ≤ longest·|x|; its product, the scale (itself rounded), the bias (likewise) and two more roundings.
  const at::Tensor whole = size.mul(longest);
  const at::Tensor final = whole.mul(2.0 * scale).add(added);
  const at::Tensor cast = walk.cast_error(layer.rows.tensor.scalar_type(), dimensions);
  const at::Tensor unit = walk.unit(dimensions), least = walk.least(dimensions);
  const at::Tensor products = walk.sum_error(n + 4, dimensions).mul(unit.add(1.0)).add(unit).add(cast);
  const double root = std::sqrt(static_cast<double>(n));
  const at::Tensor flushed = size.mul(root).add(longest * root + static_cast<double>(n + 4));
  at::Tensor own = whole.mul(products).add(least.mul(flushed)).mul(scale);
  own = own.add(final.mul(unit.mul(6.0))).add(least.mul(8.0 + 2.0 * scale));
  own = raised(own.add(walk.scalar_error(scale, dimensions)));
  own = walk.guarded(walk.guarded(own, raised(whole.add(longest))), raised(final));
  at::Tensor error = x.error.mul(longest * scale).add(own);
  if (layer.soft_cap != 0.0) {  // a quotient, tanh and a product; no slope is above 1
    error = error.add(final.mul(unit.mul(8.0).add(walk.sum_unit(dimensions).mul(32.0))));
    error = error.add(least.mul(8.0 * (1.0 + layer.soft_cap)));
    error = error.add(walk.scalar_error(layer.soft_cap, dimensions));
    own = own.clone();
    own.narrow(0, 1, own.size(0) - 1).fill_(kInfinity);
  }
  return {logits, x.reach, x.error, own, raised(error)};
}

}  // namespace bridle
