// Errors of the libraries below (LibTorch, the standard library, JSON and TOML parsers) in Bridle's words: the one place where they
// become kinds of bridle/error.h, so that no text of theirs reaches a user.
#pragma once

#include <string>

namespace bridle {

// To be called while an exception is handled: throws it as it is where it is Bridle's own, and otherwise one that says what it
// means. What nobody but Bridle can have caused is an internal error, which asks for a report.
[[noreturn]] void rethrow_translated(const std::string& operation);

}  // namespace bridle
