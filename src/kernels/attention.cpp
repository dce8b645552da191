// See attention.h. Rows are padded to whole blocks; padded tokens come last, so that no token sees them.
#include "kernels/attention.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/full.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <limits>
#include <vector>

#include "bridle/error.h"
#include "kernels/arena.h"
#include "kernels/step_kernels.h"
#include "kernels/team.h"

namespace bridle {

using at::Tensor;

namespace {

constexpr int64_t kPadding = 32;  // of rows and beside them: kernels read whole blocks

void check(const Tensor& q, const Tensor& other, const char* name) {
  const bool fits = q.dim() == 4 && other.sizes() == q.sizes() && q.numel() > 0 && other.is_cpu() &&
                    (other.scalar_type() == at::kFloat || other.scalar_type() == at::kBFloat16);
  if (!fits)
    throw InputError(
        "causal_attention",
        fmt::format("{} is {} [{}] and q [{}]: all are [B, H, T, h], float32 or bfloat16, on a CPU", name,
                    c10::toString(other.scalar_type()), fmt::join(other.sizes(), ", "),
                    fmt::join(q.sizes(), ", ")));
}

// [B·H, rows, h + padding], bfloat16.
Tensor padded_rows(const Tensor& x) {
  const Tensor flat = x.detach().to(at::kBFloat16).reshape({-1, x.size(2), x.size(3)});
  return at::constant_pad_nd(flat, {0, kPadding, 0, padded(x.size(2)) - x.size(2)}).contiguous();
}

Tensor trimmed(const Tensor& x, at::IntArrayRef sizes) {
  return x.narrow(1, 0, sizes[2]).narrow(2, 0, sizes[3]).reshape(sizes);
}

Bfloat16* data_of(const Tensor& x, int64_t head) {
  return static_cast<Bfloat16*>(x.data_ptr()) + head * x.stride(0);
}

// use(task, head, scratch) for every head of every sequence, each on one thread.
template <class Use>
void each_head(const Tensor& q, const Tensor& k, const Tensor& v, double scale, const Use& use) {
  const int64_t rows = q.size(1), head_size = q.size(2) - kPadding;
  const Team team = team_of_all();
  Arena arena;
  const int64_t bytes = Arena::size_of<char>(attention_scratch(rows, head_size, sizeof(Bfloat16)));
  arena.reserve(team.threads() * bytes);
  std::vector<char*> scratch;
  for (int i = 0; i < team.threads(); ++i) scratch.push_back(arena.take<char>(bytes));
  team.each(q.size(0), [&](int64_t head, int member) {
    use(AttentionTask{.rows = rows,
                      .head_size = head_size,
                      .scale = static_cast<float>(scale),
                      .q = data_of(q, head),
                      .k = data_of(k, head),
                      .v = data_of(v, head),
                      .stride = q.stride(1),
                      .out_stride = q.stride(1),
                      .scratch = scratch[static_cast<size_t>(member)]},
        head);
  });
}

}  // namespace

AttentionResult causal_attention(const Tensor& q, const Tensor& k, const Tensor& v, double scale) {
  for (const auto& [name, x] : {std::pair{"q", &q}, {"k", &k}, {"v", &v}}) check(q, *x, name);
  const at::NoGradGuard no_gradients;
  const Tensor a = padded_rows(q), b = padded_rows(k), c = padded_rows(v);
  const Tensor out = at::zeros(a.sizes(), a.options()), sums = at::zeros({a.size(0), a.size(1)}, at::kFloat);
  each_head(a, b, c, scale, [&](AttentionTask task, int64_t head) {
    task.out = data_of(out, head);
    task.log_sums = static_cast<float*>(sums.data_ptr()) + head * a.size(1);
    step_kernels().attend(task);
  });
  return {trimmed(out, q.sizes()), sums.narrow(1, 0, q.size(2)).reshape({q.size(0), q.size(1), q.size(2)})};
}

std::tuple<Tensor, Tensor, Tensor> causal_attention_backward(const Tensor& d_out, const Tensor& q,
                                                             const Tensor& k, const Tensor& v,
                                                             const AttentionResult& result, double scale) {
  for (const auto& [name, x] : {std::pair{"k", &k}, {"v", &v}, {"d_out", &d_out}, {"out", &result.out}})
    check(q, *x, name);
  const Tensor& given = result.log_sums;
  if (given.scalar_type() != at::kFloat || !given.is_cpu() || given.sizes() != q.sizes().slice(0, 3))
    throw InputError(
        "causal_attention",
        fmt::format("log_sums is {} [{}]: it is what causal_attention returned, float32 [B, H, T]",
                    c10::toString(given.scalar_type()), fmt::join(given.sizes(), ", ")));
  const at::NoGradGuard no_gradients;
  const Tensor a = padded_rows(q), b = padded_rows(k), c = padded_rows(v), d = padded_rows(d_out);
  const Tensor out = padded_rows(result.out);
  const Tensor sums =
      at::constant_pad_nd(result.log_sums.reshape({-1, q.size(2)}), {0, a.size(1) - q.size(2)}).contiguous();
  const Tensor da = at::zeros(a.sizes(), a.options()), db = at::zeros(a.sizes(), a.options()),
               dc = at::zeros(a.sizes(), a.options());
  each_head(a, b, c, scale, [&](AttentionTask task, int64_t head) {
    task.out = data_of(out, head);
    task.log_sums = static_cast<float*>(sums.data_ptr()) + head * a.size(1);
    task.d_out = data_of(d, head);
    task.dq = data_of(da, head);
    task.dk = data_of(db, head);
    task.dv = data_of(dc, head);
    const int64_t size = a.size(1) * padded(a.size(2) - kPadding);
    std::vector<float> key_sums(static_cast<size_t>(size)), value_sums(static_cast<size_t>(size));
    task.key_sums = key_sums.data();
    task.value_sums = value_sums.data();
    step_kernels().attend_backward(task);
  });
  return {trimmed(da, q.sizes()), trimmed(db, q.sizes()), trimmed(dc, q.sizes())};
}

Tensor causal_attention_plain(const Tensor& q, const Tensor& k, const Tensor& v, double scale) {
  const Tensor mask = at::full({q.size(2), q.size(2)}, -std::numeric_limits<double>::infinity(),
                               q.options().requires_grad(false))
                          .triu(1);
  return at::matmul(at::softmax(at::matmul(q, k.transpose(2, 3)).mul(scale).add(mask), -1), v);
}

}  // namespace bridle
