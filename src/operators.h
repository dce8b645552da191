// What the files of operators share. Python sees every exception of an operator as a RuntimeError; `with_kind` puts the kind of
// Bridle's own in front of the message, so that the package in python/ can raise the right one:
//
//   library.def("orthogonalize(Tensor matrix, …) -> Tensor", with_kind<orthogonalize_op>());
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

#include "bridle/error.h"

namespace bridle {

template <auto Function>
struct WithKind;

template <class Result, class... Arguments, Result (*Function)(Arguments...)>
struct WithKind<Function> {
  static Result call(Arguments... arguments) {
    try {
      return Function(std::forward<Arguments>(arguments)...);
    } catch (const InputError& error) {
      throw std::runtime_error(std::string("InputError: ") + error.what());
    } catch (const UsageError& error) {
      throw std::runtime_error(std::string("InputError: ") + error.what());
    } catch (const NumericError& error) {
      throw std::runtime_error(std::string("NumericError: ") + error.what());
    } catch (const PromiseError& error) {
      throw std::runtime_error(std::string("PromiseError: ") + error.what());
    }
  }
};

template <auto Function>
constexpr auto with_kind() {
  return &WithKind<Function>::call;
}

}  // namespace bridle
