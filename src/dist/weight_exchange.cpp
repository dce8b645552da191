// See weight_exchange.h. What goes to one rank goes in one message: the weights of one owner stand one after another in it.
#include "dist/weight_exchange.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include <algorithm>

#include "base/checksum.h"
#include "dist/gather.h"

namespace bridle {
namespace {

constexpr int64_t kAlign = 64;

int64_t bytes_of(const at::Tensor& tensor) {
  const int64_t bytes = tensor.numel() * static_cast<int64_t>(tensor.element_size());
  return (bytes + kAlign - 1) / kAlign * kAlign;
}

at::Tensor buffer(int64_t bytes) { return at::empty({bytes}, at::kByte); }

}  // namespace

WeightExchange::WeightExchange() { setup_.ranks = alone(); }

WeightExchange::WeightExchange(Setup setup) : setup_(std::move(setup)) {
  const auto size = static_cast<size_t>(ranks().size()), rank = static_cast<size_t>(ranks().rank());
  if (is_alone()) return;
  bytes_.resize(size);
  for (size_t i = 0; i < setup_.weights.size(); ++i) {
    int64_t& end = bytes_[static_cast<size_t>(setup_.owners[i])];
    places_.push_back(end);
    end += bytes_of(setup_.weights[i]);
  }
  to_.resize(size);
  from_.resize(size);
  own_ = buffer(bytes_[rank]);
  for (size_t r = 0; r < size; ++r) {
    if (r == rank) continue;
    to_[r] = buffer(nodes_of_rank(ranks().rank()) * bytes_[r]);
    from_[r] = buffer(nodes_of_rank(static_cast<int64_t>(r)) * bytes_[rank]);
  }
}

int64_t WeightExchange::nodes_of_rank(int64_t rank) const {
  return std::ssize(nodes_of(setup_.slices, slices_of(setup_.slices, rank, ranks().size())));
}

OwnedWeights WeightExchange::owned() const {
  if (is_alone()) return {};
  OwnedWeights owned;
  for (size_t i = 0; i < setup_.weights.size(); ++i) owned.mine.push_back(owns(i));
  owned.complete = [this](std::vector<double>& numbers) { complete_(numbers); };
  return owned;
}

// A weight's place in a message to or from its owner, in the weight's shape.
at::Tensor WeightExchange::place(const at::Tensor& bytes, size_t weight, int64_t node) const {
  const at::Tensor& like = setup_.weights[weight];
  const int64_t first = node * bytes_[static_cast<size_t>(setup_.owners[weight])] + places_[weight];
  const int64_t count = like.numel() * static_cast<int64_t>(like.element_size());
  return bytes.narrow(0, first, count).view(like.scalar_type()).view(like.sizes());
}

WeightExchange::Gradients WeightExchange::sum_at_owners(std::vector<Gradients> nodes) {
  if (is_alone()) return std::move(nodes.front());
  const at::NoGradGuard no_gradients;
  const size_t weights = setup_.weights.size();
  for (size_t i = 0; i < weights; ++i) {
    for (size_t node = 0; node < nodes.size() && !owns(i); ++node) {
      place(to_[static_cast<size_t>(setup_.owners[i])], i, static_cast<int64_t>(node)).copy_(nodes[node][i]);
      nodes[node][i].reset();
    }
  }
  ranks().exchange(to_, from_);

  std::vector<std::pair<SliceRange, std::vector<at::Tensor>>> known;
  for (int64_t rank = 0; rank < ranks().size(); ++rank) {
    const auto parts = nodes_of(setup_.slices, slices_of(setup_.slices, rank, ranks().size()));
    for (size_t node = 0; node < parts.size(); ++node) {
      Gradients sums(weights);
      for (size_t i = 0; i < weights; ++i) {
        if (!owns(i)) continue;
        sums[i] = rank == ranks().rank()
                      ? nodes[node][i]
                      : place(from_[static_cast<size_t>(rank)], i, static_cast<int64_t>(node))
                            .to(setup_.weights[i].device());
      }
      known.emplace_back(parts[node], std::move(sums));
    }
  }
  Gradients total = sum_in_tree<Gradients>(
      {0, setup_.slices},
      [&](const SliceRange& range) -> std::optional<Gradients> {
        for (auto& [node, sums] : known)
          if (node == range) return std::move(sums);
        return std::nullopt;
      },
      [](Gradients& sum, Gradients&& more) {
        for (size_t i = 0; i < sum.size(); ++i)
          if (sum[i].defined()) sum[i].add_(more[i]);
      });
  return total;
}

void WeightExchange::share_weights_() {
  if (is_alone()) return;
  const at::NoGradGuard no_gradients;
  const auto size = static_cast<size_t>(ranks().size());
  for (size_t i = 0; i < setup_.weights.size(); ++i)
    if (owns(i)) place(own_, i).copy_(setup_.weights[i]);
  std::vector<at::Tensor> received(size);
  for (size_t r = 0; r < size; ++r)
    if (to_[r].defined()) received[r] = to_[r].narrow(0, 0, bytes_[r]);
  ranks().exchange(std::vector<at::Tensor>(size, own_), received);
  for (size_t i = 0; i < setup_.weights.size(); ++i)
    if (!owns(i)) setup_.weights[i].detach().copy_(place(received[static_cast<size_t>(setup_.owners[i])], i));
}

std::vector<double> WeightExchange::numbers_of_all(std::span<const double> own, int64_t per_slice) const {
  if (is_alone()) return {own.begin(), own.end()};
  std::vector<int64_t> counts;
  for (int64_t r = 0; r < ranks().size(); ++r)
    counts.push_back(per_slice * slices_of(setup_.slices, r, ranks().size()).count);
  return gather_numbers(ranks(), own, counts);
}

bool WeightExchange::any(bool here) const {
  if (is_alone()) return here;
  const std::vector<double> own{here ? 1.0 : 0.0};
  const std::vector<int64_t> counts(static_cast<size_t>(ranks().size()), 1);
  const std::vector<double> all = gather_numbers(ranks(), own, counts);
  return std::find(all.begin(), all.end(), 1.0) != all.end();
}

void WeightExchange::complete_(std::vector<double>& numbers) const {
  std::vector<double> own;
  std::vector<int64_t> counts(static_cast<size_t>(ranks().size()));
  for (size_t i = 0; i < numbers.size(); ++i) {
    ++counts[static_cast<size_t>(setup_.owners[i])];
    if (owns(i)) own.push_back(numbers[i]);
  }
  const std::vector<double> all = gather_numbers(ranks(), own, counts);
  std::vector<size_t> next(counts.size());
  for (size_t r = 1; r < counts.size(); ++r) next[r] = next[r - 1] + static_cast<size_t>(counts[r - 1]);
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = all[next[static_cast<size_t>(setup_.owners[i])]++];
}

void WeightExchange::check_weights() const {
  if (is_alone()) return;
  Sha256 hash;
  for (const at::Tensor& weight : setup_.weights) {
    const std::string bytes = tensors_to_text({{"", weight}});
    hash.update(std::as_bytes(std::span(bytes)));
  }
  const std::vector<std::string> digests = gather_texts(ranks(), hash.digest());
  for (size_t r = 1; r < digests.size(); ++r)
    if (digests[r] != digests[0])
      throw RankError("ranks", fmt::format("rank {} of {} has other weights than rank 0: its memory or its "
                                           "network is at fault; resume the run without that machine",
                                           r, digests.size()));
}

}  // namespace bridle
