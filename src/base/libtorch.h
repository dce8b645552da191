// What differs between the versions of LibTorch that Bridle is built with: 1.13 (Debian 12), 2.6 (Debian 13), 2.14 (unstable).
// No other file asks for a version.
#pragma once

#include <c10/util/Optional.h>

#include <optional>

namespace bridle {

// What operators return for "none": a class of LibTorch's own in 1.13, std::optional since 2.3.
template <class T>
using OperatorOptional = c10::optional<T>;

template <class T>
OperatorOptional<T> operator_optional(const std::optional<T>& value) {
  return value ? OperatorOptional<T>(*value) : OperatorOptional<T>();
}

}  // namespace bridle
