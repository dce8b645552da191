// Ranks for tests: threads of this process, which find each other through a file.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "bridle/ranks.h"

namespace bridle::test {

// work(ranks) on each of `size` ranks at once. What one throws, the others are told; the first error is thrown in the end.
void as_ranks(int64_t size, const std::function<void(const std::shared_ptr<Ranks>&)>& work);

// The same, with what each rank threw, or "" where it ended well. They leave by themselves.
std::vector<std::string> errors_of_ranks(int64_t size, const std::function<void(int64_t rank)>& work);

}  // namespace bridle::test
