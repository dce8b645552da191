// See exact_arithmetic.h.
#include "kernels/exact_arithmetic.h"

#include <ATen/Parallel.h>
#include <immintrin.h>
#include <omp.h>

namespace bridle {
namespace {

constexpr unsigned kDefault = 0x1F80;  // all exceptions masked, round to nearest, no flushing

// Inside a parallel region only this thread can be reached, and only this one will compute.
int reachable_threads() { return at::in_parallel_region() ? 1 : at::get_num_threads(); }

}  // namespace

ExactArithmetic::ExactArithmetic() : saved_(static_cast<size_t>(reachable_threads()), kDefault) {
#pragma omp parallel num_threads(static_cast <int>(saved_.size()))
  {
    saved_[static_cast<size_t>(omp_get_thread_num())] = _mm_getcsr();
    _mm_setcsr(kDefault);
  }
}

ExactArithmetic::~ExactArithmetic() {
#pragma omp parallel num_threads(static_cast <int>(saved_.size()))
  _mm_setcsr(saved_[static_cast<size_t>(omp_get_thread_num())]);
}

}  // namespace bridle
