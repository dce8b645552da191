// See rank_support.h.
#include "rank_support.h"

#include <stdexcept>
#include <thread>

#include "file_support.h"

namespace bridle::test {

std::vector<std::string> errors_of_ranks(int64_t size, const std::function<void(int64_t rank)>& work) {
  std::vector<std::string> errors(static_cast<size_t>(size));
  {
    std::vector<std::jthread> threads;
    for (int64_t rank = 0; rank < size; ++rank)
      threads.emplace_back([&, rank] {
        try {
          work(rank);
        } catch (const std::exception& error) {
          errors[static_cast<size_t>(rank)] = error.what();
        }
      });
  }
  return errors;
}

void as_ranks(int64_t size, const std::function<void(const std::shared_ptr<Ranks>&)>& work) {
  const TemporaryFolder folder;
  const auto errors = errors_of_ranks(size, [&](int64_t rank) {
    const auto ranks = join_ranks({.rank = rank,
                                   .size = size,
                                   .rendezvous = "file:" + (folder / "place").string(),
                                   .timeout = std::chrono::seconds(20)});
    try {
      work(ranks);
      ranks->leave();
    } catch (const std::exception& error) {
      ranks->fail(error.what());
      throw;
    }
  });
  for (const std::string& error : errors)
    if (!error.empty()) throw std::runtime_error(error);
}

}  // namespace bridle::test
