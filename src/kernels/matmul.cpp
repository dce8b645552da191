// See matmul.h. The blocking is GotoBLAS's: of the right factor, a block of up to kMostTerms terms × as many
// columns as fit in the L2 cache is packed by all threads together; then each takes 32 rows of the left
// factor at a time from a queue, packs them, and multiplies them with the whole block. Sums of several such
// blocks wait in float32.
#include "kernels/matmul.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/baddbmm.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/mman.h>

#include <algorithm>

#include "bridle/error.h"
#include "kernels/aligned_buffer.h"
#include "kernels/cpu.h"
#include "kernels/tensor_factors.h"

namespace bridle {

using at::Tensor;

namespace {

constexpr int64_t kMostTerms = 1024;            // 32 packed rows are then 64 KB, and lie on the stack
constexpr int64_t kMostElements = 512 * 1024;   // of a chunk of the right factor: 1 MB of an L2 cache of 2 MB
constexpr int64_t kWholeElements = 768 * 1024;  // up to here one chunk: the left factor is packed once
constexpr int64_t kSerialWork = 256 * 256 * 256;  // m·n·k up to which moving data between cores eats the gain
constexpr int64_t kBatchWork = 384 * 384 * 384;  // m·n·k up to which threads take whole matrices of a batch
constexpr int64_t kTasks = 8;  // a block is cut into at least as many, to keep several threads busy

std::string shape_of(const Tensor& t) {
  return fmt::format("[{}]", fmt::join(t.sizes().begin(), t.sizes().end(), ", "));
}

void check_dtype(const char* name, at::ScalarType dtype) {
  if (dtype == at::kFloat || dtype == at::kBFloat16) return;
  throw InputError("matmul_bf16",
                   fmt::format("{} is {}: convert it to float32 or bfloat16", name, c10::toString(dtype)));
}

std::vector<int64_t> result_shape(const Tensor& a, const Tensor& b) {
  std::vector<int64_t> shape = a.sizes().vec();
  shape.back() = b.size(-1);
  return shape;
}

void check(const Tensor& a, const Tensor& b, const MatmulOptions& options) {
  check_dtype("a", a.scalar_type());
  check_dtype("b", b.scalar_type());
  check_dtype("the dtype of the result", options.dtype);
  if (a.dim() != b.dim() || (a.dim() != 2 && a.dim() != 3)) {
    throw InputError(
        "matmul_bf16",
        fmt::format("a is {} and b {}: give two matrices, or two batches [b, m, k] and [b, k, n]",
                    shape_of(a), shape_of(b)));
  }
  if (a.size(-1) != b.size(-2) || (a.dim() == 3 && a.size(0) != b.size(0))) {
    throw InputError(
        "matmul_bf16",
        fmt::format("a is {} and b {}: the columns of a must match the rows of b, and the batches each other",
                    shape_of(a), shape_of(b)));
  }
  if (!options.addend) return;
  check_dtype("the addend", options.addend->scalar_type());
  if (options.addend->sizes() != at::IntArrayRef(result_shape(a, b))) {
    throw InputError("matmul_bf16",
                     fmt::format("the addend is {} and a·b [{}]: give it the shape of the result",
                                 shape_of(*options.addend), fmt::join(result_shape(a, b), ", ")));
  }
}

// The addend, unless it counts for nothing.
std::optional<Tensor> effective_addend(const MatmulOptions& options) {
  return options.scale == 0.0 ? std::nullopt : options.addend;
}

void* address(const Tensor& t, int64_t batch) {
  const int64_t offset = t.dim() == 3 ? batch * t.stride(0) * t.element_size() : 0;
  return static_cast<char*>(t.data_ptr()) + offset;
}

// `lines` and `depth` name the dimensions of rows (or columns) and of the sum.
amx::Factor factor_of(const Tensor& t, int64_t batch, int64_t lines, int64_t depth) {
  const bool along_depth = t.stride(depth) == 1;
  return {.data = address(t, batch),
          .element = element_of(t),
          .along_depth = along_depth,
          .lines = t.size(lines),
          .depth = t.size(depth),
          .stride = t.stride(along_depth ? lines : depth)};
}

amx::Target target_of(const Tensor& out, int64_t batch, double factor, const std::optional<Tensor>& addend,
                      double scale) {
  amx::Target target{.data = address(out, batch),
                     .element = element_of(out),
                     .rows = out.size(-2),
                     .columns = out.size(-1),
                     .stride = out.stride(-2),
                     .factor = static_cast<float>(factor),
                     .addend = nullptr,
                     .addend_element = amx::Element::float32,
                     .addend_stride = 0,
                     .scale = static_cast<float>(scale)};
  if (!addend) return target;
  target.addend = address(*addend, batch);
  target.addend_element = element_of(*addend);
  target.addend_stride = addend->stride(-2);
  return target;
}

struct Workspace {
  AlignedBuffer<uint32_t> packed;
  AlignedBuffer<float> sums;
};

// One matrix product, cut into blocks: how depends on the sizes alone.
struct Job {
  amx::Factor left, right;
  amx::Target target;
  int64_t term_blocks, steps;             // blocks along the sum, and steps in each
  int64_t column_chunks, chunk_blocks;    // chunks of the right factor, and 32-column blocks in each
  int64_t row_blocks, column_groups = 1;  // tasks of a chunk
  bool symmetric;                         // right is the transpose of left: half the work, and the same bits
  uint32_t* packed[2] = {};
  float* sums = nullptr;

  Job(const amx::Factor& a, const amx::Factor& b, const amx::Target& out)
      : left(a), right(b), target(out), symmetric(a == b) {
    term_blocks = ceil_div(left.depth, kMostTerms);
    steps = ceil_div(ceil_div(left.depth, term_blocks), amx::kStep);
    const int64_t blocks = ceil_div(right.lines, amx::kBlock);
    const int64_t block_elements = steps * amx::kStep * amx::kBlock;
    const bool whole = blocks * block_elements <= kWholeElements;
    column_chunks = whole ? 1 : ceil_div(blocks, kMostElements / block_elements);
    chunk_blocks = ceil_div(blocks, column_chunks);
    row_blocks = ceil_div(left.lines, amx::kBlock);
    if (row_blocks < kTasks) column_groups = std::min(chunk_blocks, ceil_div(kTasks, row_blocks));
  }

  int64_t packed_size() const { return chunk_blocks * steps * amx::kPairsPerStep; }
  int64_t sums_size() const { return term_blocks == 1 ? 0 : row_blocks * chunk_blocks * amx::kSums; }
  // 32-column blocks of a chunk; the last one has fewer, or none.
  int64_t blocks_in(int64_t chunk) const {
    const int64_t rest = ceil_div(right.lines, amx::kBlock) - chunk * chunk_blocks;
    return std::clamp<int64_t>(rest, 0, chunk_blocks);
  }
};

// 32 rows of the result × one group of the chunk's columns, up to the diagonal where the result is symmetric.
void multiply_rows(const Job& job, int64_t chunk, int64_t term_block, int64_t task, const uint32_t* right) {
  alignas(64) uint32_t left[kMostTerms / amx::kStep * amx::kPairsPerStep];
  alignas(64) float block_sums[amx::kSums];
  const int64_t row_block = job.row_blocks - 1 - task / job.column_groups;  // the longest first
  const int64_t group = task % job.column_groups, chunk_start = chunk * job.chunk_blocks;
  const int64_t blocks = job.blocks_in(chunk), group_blocks = ceil_div(blocks, job.column_groups);
  const int64_t first = group * group_blocks, end = std::min(blocks, first + group_blocks);
  const int64_t last = job.symmetric ? std::min(end, row_block + 1 - chunk_start) : end;
  if (first >= last) return;
  const int64_t row = row_block * amx::kBlock;
  amx::pack(job.left, amx::Side::left, row, term_block * job.steps * amx::kStep, job.steps, left);
  for (int64_t block = first; block < last; ++block) {
    const int64_t column = (chunk_start + block) * amx::kBlock;
    float* sums =
        job.term_blocks == 1 ? block_sums : job.sums + (row_block * job.chunk_blocks + block) * amx::kSums;
    amx::multiply(left, right + block * job.steps * amx::kPairsPerStep, job.steps, term_block > 0, sums);
    if (term_block + 1 < job.term_blocks) continue;
    amx::write(sums, job.target, row, column);
    if (!job.symmetric || row == column) continue;
    amx::transpose(sums);
    amx::write(sums, job.target, column, row);
  }
}

// A small left factor and a wide right one: the left one is packed once, and each thread packs and multiplies columns of its own.
bool is_wide(const Job& job) {
  constexpr int64_t least_ratio = 4, most_left = 256 * 1024;
  return !job.symmetric && job.term_blocks == 1 && job.right.lines >= least_ratio * job.left.lines &&
         job.row_blocks * job.steps * amx::kPairsPerStep * 2 <= most_left;
}

void run_wide(const Job& job, int threads) {
  thread_local Workspace workspace;
  uint32_t* left = workspace.packed.at_least(job.row_blocks * job.steps * amx::kPairsPerStep);
#pragma omp parallel num_threads(threads)
  {
    const amx::TileScope tiles;
    alignas(64) uint32_t right[kMostTerms / amx::kStep * amx::kPairsPerStep];
    alignas(64) float sums[amx::kSums];
#pragma omp for schedule(dynamic)
    for (int64_t i = 0; i < job.row_blocks; ++i)
      amx::pack(job.left, amx::Side::left, i * amx::kBlock, 0, job.steps,
                left + i * job.steps * amx::kPairsPerStep);
#pragma omp for schedule(dynamic, 4) nowait
    for (int64_t j = 0; j < ceil_div(job.right.lines, amx::kBlock); ++j) {
      amx::pack(job.right, amx::Side::right, j * amx::kBlock, 0, job.steps, right);
      for (int64_t i = 0; i < job.row_blocks; ++i) {
        amx::multiply(left + i * job.steps * amx::kPairsPerStep, right, job.steps, false, sums);
        amx::write(sums, job.target, i * amx::kBlock, j * amx::kBlock);
      }
    }
  }
}

void run(Job job, int threads) {
  if (is_wide(job)) return run_wide(job, threads);
  thread_local Workspace workspace;
  job.packed[0] = workspace.packed.at_least(2 * job.packed_size());
  job.packed[1] = job.packed[0] + job.packed_size();
  job.sums = workspace.sums.at_least(job.sums_size());
#pragma omp parallel num_threads(threads)
  {
    const amx::TileScope tiles;
    for (int64_t i = 0; i < job.column_chunks * job.term_blocks; ++i) {
      const int64_t chunk = i / job.term_blocks, term_block = i % job.term_blocks;
      // Two buffers in turn: whoever is done packs the next block while others still read this one.
      uint32_t* packed = job.packed[i % 2];
#pragma omp for schedule(dynamic)
      for (int64_t block = 0; block < job.blocks_in(chunk); ++block) {
        amx::pack(job.right, amx::Side::right, (chunk * job.chunk_blocks + block) * amx::kBlock,
                  term_block * job.steps * amx::kStep, job.steps,
                  packed + block * job.steps * amx::kPairsPerStep);
      }
#pragma omp for schedule(dynamic) nowait
      for (int64_t task = 0; task < job.row_blocks * job.column_groups; ++task) {
        multiply_rows(job, chunk, term_block, task, packed);
      }
    }
  }
}

// Page faults on a large fresh result cost more than the product: ask for pages of 2 MB. Only a hint.
void advise_large_pages(const Tensor& out) {
  constexpr uintptr_t page = uintptr_t{2} << 20;
  auto* const data = static_cast<char*>(out.data_ptr());
  const uintptr_t to_page = (page - reinterpret_cast<uintptr_t>(data) % page) % page;
  if (out.nbytes() >= to_page + page)
    madvise(data + to_page, (out.nbytes() - to_page) / page * page, MADV_HUGEPAGE);
}

Tensor matmul_packed(const Tensor& a, const Tensor& b, const MatmulOptions& options) {
  const Tensor left = with_unit_stride(a), right = with_unit_stride(b);
  const Tensor out = at::empty(result_shape(a, b), a.options().dtype(options.dtype));
  advise_large_pages(out);
  std::optional<Tensor> addend = effective_addend(options);
  if (addend && addend->stride(-1) != 1) addend = addend->contiguous();
  const auto run_one = [&](int64_t batch, int threads) {
    run(Job(factor_of(left, batch, left.dim() - 2, left.dim() - 1),
            factor_of(right, batch, right.dim() - 1, right.dim() - 2),
            target_of(out, batch, options.factor, addend, options.scale)),
        threads);
  };
  const int64_t batches = a.dim() == 3 ? a.size(0) : 1, work = out.size(-2) * out.size(-1) * a.size(-1);
  const bool serial = at::in_parallel_region() || work * batches <= kSerialWork;
  const int threads = serial ? 1 : at::get_num_threads();
  if (batches > 1 && work <= kBatchWork) {
#pragma omp parallel for schedule(dynamic) num_threads(threads)
    for (int64_t batch = 0; batch < batches; ++batch) run_one(batch, 1);
  } else {
    for (int64_t batch = 0; batch < batches; ++batch) run_one(batch, threads);
  }
  return out;
}

}  // namespace

Tensor matmul_bf16_plain(const Tensor& a, const Tensor& b, const MatmulOptions& options) {
  check(a, b, options);
  const at::NoGradGuard no_grad;
  const Tensor left = a.to(at::kBFloat16).to(at::kFloat), right = b.to(at::kBFloat16).to(at::kFloat);
  const std::optional<Tensor> addend = effective_addend(options);
  if (!addend) {
    return (a.dim() == 2 ? at::mm(left, right) : at::bmm(left, right)).mul(options.factor).to(options.dtype);
  }
  const Tensor wide = addend->to(at::kFloat);
  return (a.dim() == 2 ? at::addmm(wide, left, right, options.scale, options.factor)
                       : at::baddbmm(wide, left, right, options.scale, options.factor))
      .to(options.dtype);
}

Tensor matmul_bf16(const Tensor& a, const Tensor& b, const MatmulOptions& options) {
  check(a, b, options);
  const bool on_cpu = a.is_cpu() && b.is_cpu() && (!options.addend || options.addend->is_cpu());
  const bool empty = a.numel() == 0 || b.numel() == 0;
  if (!on_cpu || empty || !has_bfloat16_products()) return matmul_bf16_plain(a, b, options);
  const at::NoGradGuard no_grad;
  return matmul_packed(a, b, options);
}

}  // namespace bridle
