// See arena.h.
#include "kernels/arena.h"

#include <sys/mman.h>

#include <new>

namespace bridle {

namespace {
constexpr int64_t kPage = int64_t{2} << 20;
}

Arena::~Arena() {
  if (data_ != nullptr) munmap(data_, static_cast<size_t>(size_));
}

void Arena::reserve(int64_t bytes) {
  if (data_ != nullptr) munmap(data_, static_cast<size_t>(size_));
  data_ = nullptr;
  used_ = 0;
  size_ = (bytes + kPage - 1) / kPage * kPage;
  if (size_ == 0) return;
  void* memory =
      mmap(nullptr, static_cast<size_t>(size_), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  madvise(memory, static_cast<size_t>(size_), MADV_HUGEPAGE);  // only a hint
  data_ = static_cast<std::byte*>(memory);
}

std::byte* Arena::take_bytes(int64_t bytes) {
  const int64_t size = size_of<std::byte>(bytes);
  if (size > size_ - used_) throw std::bad_alloc();
  std::byte* piece = data_ + used_;
  used_ += size;
  return piece;
}

}  // namespace bridle
