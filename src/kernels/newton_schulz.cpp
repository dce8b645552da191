// See newton_schulz.h. X is kept as the right factor of the next product with P, in blocks of 32 columns. Columns are cut into slots,
// which depend on the sizes alone: a task works on one slot's columns, and adds to that slot's part of A, so that no sum depends on
// who computed it.
#include "kernels/newton_schulz.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "kernels/aligned_buffer.h"
#include "kernels/cpu.h"
#include "kernels/newton_schulz_panel.h"
#include "kernels/team.h"
#include "kernels/tensor_factors.h"

namespace bridle {

using at::Tensor;

namespace {

constexpr int64_t kPanelBlocks = 8;                  // 256 columns whose share of A is added at once
constexpr int64_t kSlotElements = int64_t{1} << 17;  // that make a task worth its part of A
constexpr int64_t kMostSlots = 8;

void apply_panel(const amx::PanelTask& task) {
  if (instruction_set() == InstructionSet::amx) return amx::apply_panel_amx(task);
  amx::apply_panel_avx512_bf16(task);
}

struct Workspace {
  AlignedBuffer<uint32_t> packed;
  AlignedBuffer<float> sums;
};

class Iteration {
 public:
  Iteration(const Tensor& matrix, const Tensor& out);

  void load();           // X from the matrix, and A
  double trace() const;  // of A
  void step(const NewtonSchulzStep& step,
            float scale);  // X ← scale·(aI + P)X with P = bA + cA² of scale·X, and A
  void finish(const NewtonSchulzStep& step, float scale);  // the same, to `out`
  void add_even(const EvenPolynomial& polynomial);  // out = matrix + PX with P = c₂A² + c₃A³ + c₄A⁴

 private:
  static constexpr int64_t kPairs = amx::kPairsPerStep;

  // Of the lower half of A.
  struct Block {
    int64_t row, column;
  };
  Block block(int64_t index) const;
  uint32_t* columns(int64_t j) const { return x_ + j * lines_ * kPairs; }
  int64_t place(int64_t row, int64_t column) const { return (row * lines_ + column) * kPairs; }

  template <class Panel>
  void each_panel(const Panel& panel);
  template <class Item>
  void each_block(const Item& item);
  void load_panel(int64_t first, int64_t count, int member);
  void add_gram(int64_t slot, bool is_first, int64_t count, int member);
  void finish_gram(float factor);
  void make_factor(const NewtonSchulzStep& step, float scale);
  void pack_both(float* sums, Block at, uint32_t* left, uint32_t* right) const;
  template <class Finish>
  void write(const Finish& finish);

  Team team_ = team_of_all();
  amx::Factor rows_, columns_;  // the matrix with its short side as lines, and with its long side
  amx::Target target_;
  bool tall_;
  int64_t lines_, long_blocks_, blocks_, slots_, panel_blocks_;  // in blocks of 32
  uint32_t *x_, *next_;                                          // as right factor of the product with P
  uint32_t *a_left_, *a_right_, *square_left_, *rest_right_, *p_;
  uint32_t *left_, *right_;  // of every member: a panel, as both factors of A
  float* parts_;             // of A, of every slot
};

Iteration::Iteration(const Tensor& matrix, const Tensor& out) : tall_(matrix.size(0) > matrix.size(1)) {
  const int64_t m = matrix.size(tall_ ? 1 : 0), n = matrix.size(tall_ ? 0 : 1);
  const int64_t row_stride = matrix.stride(tall_ ? 1 : 0), column_stride = matrix.stride(tall_ ? 0 : 1);
  const amx::Element element = element_of(matrix);
  const bool along_rows = column_stride == 1;
  rows_ = {matrix.data_ptr(), element, along_rows, m, n, along_rows ? row_stride : column_stride};
  columns_ = {matrix.data_ptr(), element, !along_rows, n, m, along_rows ? row_stride : column_stride};
  target_ = {.data = out.data_ptr(),
             .element = element_of(out),
             .rows = out.size(0),
             .columns = out.size(1),
             .stride = out.stride(0),
             .factor = 1.0F,
             .addend = nullptr,
             .addend_element = element,
             .addend_stride = matrix.stride(0),
             .scale = 1.0F};
  lines_ = ceil_div(m, amx::kBlock);
  long_blocks_ = ceil_div(n, amx::kBlock);
  blocks_ = lines_ * (lines_ + 1) / 2;
  const auto worth = static_cast<uint64_t>(std::clamp<int64_t>(m * n / kSlotElements, 1, kMostSlots));
  slots_ = std::min(static_cast<int64_t>(std::bit_floor(worth)), long_blocks_);
  if (slots_ == 1) team_ = Team(1);
  panel_blocks_ = std::min(kPanelBlocks, ceil_div(long_blocks_, slots_));
  const int64_t square = lines_ * lines_ * kPairs, panel = lines_ * panel_blocks_ * kPairs;
  const int64_t whole = lines_ * long_blocks_ * kPairs;
  thread_local Workspace workspace;
  uint32_t* packed = workspace.packed.at_least(2 * whole + 5 * square + team_.threads() * 2 * panel);
  const auto take = [&packed](int64_t size) { return std::exchange(packed, packed + size); };
  x_ = take(whole);
  next_ = take(whole);
  a_left_ = take(square);
  a_right_ = take(square);
  square_left_ = take(square);
  rest_right_ = take(square);
  p_ = take(square);
  left_ = take(team_.threads() * panel);
  right_ = take(team_.threads() * panel);
  parts_ = workspace.sums.at_least(slots_ * blocks_ * amx::kSums);
}

Iteration::Block Iteration::block(int64_t index) const {
  int64_t row = 0;
  while ((row + 1) * (row + 2) / 2 <= index) ++row;
  return {row, index - row * (row + 1) / 2};
}

// panel(first, count, slot, is_first, member): every slot's columns, a panel at a time.
template <class Panel>
void Iteration::each_panel(const Panel& panel) {
  team_.each(slots_, [&](int64_t slot, int member) {
    const amx::TileScope tiles;
    const int64_t start = slot * long_blocks_ / slots_, end = (slot + 1) * long_blocks_ / slots_;
    for (int64_t first = start; first < end; first += panel_blocks_)
      panel(first, std::min(panel_blocks_, end - first), slot, first == start, member);
  });
}

// item(block, sums) for every block of A's lower half.
template <class Item>
void Iteration::each_block(const Item& item) {
  team_.each(blocks_, [&](int64_t index, int) {
    const amx::TileScope tiles;
    alignas(64) float sums[amx::kSums];
    item(block(index), sums);
  });
}

void Iteration::load_panel(int64_t first, int64_t count, int member) {
  uint32_t *left = left_ + member * lines_ * panel_blocks_ * kPairs, *right = right_ + (left - left_);
  for (int64_t row = 0; row < lines_; ++row) {
    const int64_t at = row * panel_blocks_ * kPairs;
    amx::pack(rows_, amx::Side::left, row * amx::kBlock, first * amx::kStep, count, left + at);
    for (int64_t j = 0; j < count; ++j) amx::transpose(left + at + j * kPairs, right + at + j * kPairs);
  }
  for (int64_t j = first; j < first + count; ++j)
    amx::pack(columns_, amx::Side::right, j * amx::kBlock, 0, lines_, columns(j));
}

void Iteration::add_gram(int64_t slot, bool is_first, int64_t count, int member) {
  const uint32_t *left = left_ + member * lines_ * panel_blocks_ * kPairs, *right = right_ + (left - left_);
  float* sums = parts_ + slot * blocks_ * amx::kSums;
  for (int64_t row = 0; row < lines_; ++row) {
    for (int64_t column = 0; column <= row; ++column, sums += amx::kSums)
      amx::multiply(left + row * panel_blocks_ * kPairs, right + column * panel_blocks_ * kPairs, count,
                    !is_first, sums);
  }
}

void Iteration::load() {
  each_panel([this](int64_t first, int64_t count, int64_t slot, bool is_first, int member) {
    load_panel(first, count, member);
    add_gram(slot, is_first, count, member);
  });
}

double Iteration::trace() const {
  double sum = 0.0;
  for (int64_t slot = 0; slot < slots_; ++slot) {
    for (int64_t row = 0; row < lines_; ++row)
      sum += amx::trace(parts_ + (slot * blocks_ + row * (row + 3) / 2) * amx::kSums);
  }
  return sum;
}

// A symmetric block and its mirror image, as both factors; no right one: null.
void Iteration::pack_both(float* sums, Block at, uint32_t* left, uint32_t* right) const {
  const auto pack_one = [&](int64_t position) {
    amx::pack_left(sums, left + position);
    if (right != nullptr) amx::transpose(left + position, right + position);
  };
  pack_one(place(at.row, at.column));
  if (at.row == at.column) return;
  amx::transpose(sums);
  pack_one(place(at.column, at.row));
}

void Iteration::finish_gram(float factor) {
  each_block([&](Block at, float* sums) {
    const int64_t index = at.row * (at.row + 1) / 2 + at.column;
    amx::add_up(parts_ + index * amx::kSums, slots_, blocks_ * amx::kSums, factor, sums);
    pack_both(sums, at, a_left_, a_right_);
  });
}

void Iteration::make_factor(const NewtonSchulzStep& step, float scale) {
  finish_gram(scale * scale);
  each_block([&](Block at, float* sums) {
    amx::multiply(a_left_ + place(at.row, 0), a_right_ + place(at.column, 0), lines_, false, sums);
    amx::add_left(a_left_ + place(at.row, at.column), step.b, step.c, sums);
    pack_both(sums, at, p_, nullptr);
  });
}

void Iteration::step(const NewtonSchulzStep& step, float scale) {
  make_factor(step, scale);
  const int64_t panel = lines_ * panel_blocks_ * kPairs;
  each_panel([&](int64_t first, int64_t count, int64_t slot, bool is_first, int member) {
    apply_panel({.p = p_,
                 .lines = lines_,
                 .a = step.a,
                 .factor = scale,
                 .old = columns(first),
                 .x = next_ + (columns(first) - x_),
                 .count = count,
                 .left = left_ + member * panel,
                 .right = right_ + member * panel,
                 .stride = panel_blocks_ * kPairs});
    add_gram(slot, is_first, count, member);
  });
  std::swap(x_, next_);
}

// PX to `out`, after finish(block of X, its product).
template <class Finish>
void Iteration::write(const Finish& finish) {
  each_panel([&](int64_t first, int64_t count, int64_t, bool, int) {
    alignas(64) float sums[amx::kSums];
    for (int64_t j = first; j < first + count; ++j) {
      for (int64_t row = 0; row < lines_; ++row) {
        amx::multiply(p_ + place(row, 0), columns(j), lines_, false, sums);
        finish(columns(j) + row * kPairs, sums);
        if (tall_) amx::transpose(sums);
        const int64_t line = row * amx::kBlock, column = j * amx::kBlock;
        amx::write(sums, target_, tall_ ? column : line, tall_ ? line : column);
      }
    }
  });
}

void Iteration::finish(const NewtonSchulzStep& step, float scale) {
  make_factor(step, scale);
  write([&](const uint32_t* x, float* sums) { amx::add_right(x, scale * step.a, scale, sums); });
}

// P = c₂A² + A²(c₃A + c₄A²)
void Iteration::add_even(const EvenPolynomial& polynomial) {
  finish_gram(1.0F);
  each_block([&](Block at, float* sums) {
    alignas(64) uint32_t rest[kPairs];
    amx::multiply(a_left_ + place(at.row, 0), a_right_ + place(at.column, 0), lines_, false, sums);
    const auto keep = [&](int64_t position) {
      amx::pack_left(sums, square_left_ + position);
      amx::add_left(a_left_ + position, polynomial.cube, polynomial.fourth, sums);
      amx::pack_left(sums, rest);
      amx::transpose(rest, rest_right_ + position);
    };
    alignas(64) float mirror[amx::kSums];
    std::copy(sums, sums + amx::kSums, mirror);
    keep(place(at.row, at.column));
    if (at.row == at.column) return;
    std::copy(mirror, mirror + amx::kSums, sums);
    amx::transpose(sums);
    keep(place(at.column, at.row));
  });
  each_block([&](Block at, float* sums) {
    amx::multiply(square_left_ + place(at.row, 0), rest_right_ + place(at.column, 0), lines_, false, sums);
    amx::add_left(square_left_ + place(at.row, at.column), polynomial.square, 1.0F, sums);
    pack_both(sums, at, p_, nullptr);
  });
  target_.addend = columns_.data;
  write([](const uint32_t*, float*) {});
}

}  // namespace

bool has_newton_schulz(const Tensor& matrix) {
  return matrix.is_cpu() && has_bfloat16_products() &&
         (matrix.scalar_type() == at::kFloat || matrix.scalar_type() == at::kBFloat16);
}

Tensor newton_schulz_bf16(const Tensor& matrix, std::span<const NewtonSchulzStep> steps) {
  constexpr double least = 1e-30, most = 1e30;
  const Tensor in = with_unit_stride(matrix), out = at::empty(matrix.sizes(), matrix.options());
  Iteration iteration(in, out);
  iteration.load();
  const double square = iteration.trace();
  if (!(square > least && square < most)) return {};
  auto scale = static_cast<float>(1.0 / std::sqrt(square));
  for (const NewtonSchulzStep& step : steps.first(steps.size() - 1))
    iteration.step(step, std::exchange(scale, 1.0F));
  iteration.finish(steps.back(), scale);
  return out;
}

Tensor add_even_polynomial_bf16(const Tensor& matrix, const EvenPolynomial& polynomial) {
  const Tensor in = matrix.stride(1) == 1 ? matrix : matrix.contiguous();
  const Tensor out = at::empty(matrix.sizes(), matrix.options());
  Iteration iteration(in, out);
  iteration.load();
  iteration.add_even(polynomial);
  return out;
}

}  // namespace bridle
