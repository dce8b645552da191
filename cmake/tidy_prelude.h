// For clang-tidy only: LibTorch 1.13 has members of type std::vector<IValue> where IValue is incomplete, which clang
// refuses once std::vector is constexpr (C++20). This takes the constexpr off it before anything else includes it;
// the function that <vector> shares with a header already read gets another name there.
#pragma once
#include <memory>
#include <string>
#undef _GLIBCXX20_CONSTEXPR
#define _GLIBCXX20_CONSTEXPR
#define __fill_a1 __fill_a1_of_vector
#include <vector>
#undef __fill_a1
#undef _GLIBCXX20_CONSTEXPR
#define _GLIBCXX20_CONSTEXPR constexpr
