// The few kinds of error that Bridle throws. Every message reads "[operation] what, the value, what to do";
// the library never prints, aborts or exits. The command line maps each kind to its exit code.
#pragma once

#include <stdexcept>
#include <string>

namespace bridle {

class Error : public std::runtime_error {
 public:
  Error(const std::string& operation, const std::string& message)
      : std::runtime_error("[" + operation + "] " + message) {}
};

// The caller's data or settings: a missing file, a wrong shape, a key that does not exist. Exit code 1.
class InputError : public Error {
 public:
  using Error::Error;
};

// The command line was called wrongly. Exit code 2.
class UsageError : public Error {
 public:
  using Error::Error;
};

// NaN, Inf, or a factorisation that did not converge. Exit code 1.
class NumericError : public Error {
 public:
  using Error::Error;
};

// A bound that was promised does not hold, or could not be established. Exit code 3.
class PromiseError : public Error {
 public:
  using Error::Error;
};

// Of several processes that work together one is gone, or cannot go on: the message names its rank and the cause. Exit code 4.
class RankError : public Error {
 public:
  using Error::Error;
};

}  // namespace bridle
