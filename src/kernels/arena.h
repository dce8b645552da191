// Memory that is asked for once and then given out in aligned pieces, in large pages where the system has them: a loop that
// reuses it has no page faults. Pieces start as zeros.
#pragma once

#include <cstddef>
#include <cstdint>

namespace bridle {

class Arena {
 public:
  Arena() = default;
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // Empties it; what was given out before is gone. Throws std::bad_alloc.
  void reserve(int64_t bytes);

  // Requires that the pieces, each rounded up to whole cache lines, fit into what was reserved.
  template <class T>
  T* take(int64_t count) {
    return reinterpret_cast<T*>(take_bytes(count * static_cast<int64_t>(sizeof(T))));
  }

  // What a piece takes.
  template <class T>
  static constexpr int64_t size_of(int64_t count) {
    return (count * static_cast<int64_t>(sizeof(T)) + kLine - 1) / kLine * kLine;
  }

 private:
  static constexpr int64_t kLine = 64;
  std::byte* take_bytes(int64_t bytes);
  std::byte* data_ = nullptr;
  int64_t size_ = 0;
  int64_t used_ = 0;
};

}  // namespace bridle
