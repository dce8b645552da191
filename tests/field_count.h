// How many members a struct without constructors has: as many values as its braces take.
#pragma once

#include <cstddef>
#include <utility>

namespace bridle::test {

struct Anything {
  template <class T>
  operator T() const;  // NOLINT: it stands for a value of any type; never defined
};

template <class T, size_t... I>
constexpr bool takes_values(std::index_sequence<I...>) {
  return requires { T{(static_cast<void>(I), Anything{})...}; };
}

template <class T, size_t known = 0>
constexpr size_t field_count() {
  if constexpr (takes_values<T>(std::make_index_sequence<known + 1>{})) {
    return field_count<T, known + 1>();
  } else {
    return known;
  }
}

}  // namespace bridle::test
