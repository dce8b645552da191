// Aligned memory that grows and stays, in large pages where the system has them, for what a kernel needs only while it runs.
#pragma once

#include "kernels/arena.h"

namespace bridle {

template <class T>
class AlignedBuffer {
 public:
  // What was in it before is gone where it has to grow. Throws std::bad_alloc.
  T* at_least(int64_t size) {
    if (size > size_) {
      size_ = 0;
      data_ = nullptr;
      arena_.reserve(Arena::size_of<T>(size));
      data_ = arena_.take<T>(size);
      size_ = size;
    }
    return data_;
  }

 private:
  Arena arena_;
  T* data_ = nullptr;
  int64_t size_ = 0;
};

}  // namespace bridle
