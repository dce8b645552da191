// See merger.h. A merge's parts are bytes or results of merges of lower rank, so merging can only bring up pairs of
// higher rank: to merge always the leftmost pair of the lowest rank is the same as whole passes over the piece.
#include "data/merger.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <functional>
#include <queue>

#include "bridle/error.h"

namespace bridle {
namespace {

constexpr size_t kShort = 48;  // bytes up to which searching an array beats a heap

uint32_t pair_of(Token left, Token right) { return uint32_t{left} << 16 | right; }
Token result_of(uint32_t merge) { return static_cast<Token>(merge); }

}  // namespace

Merger::Merger(const BytePairs& pairs) : bytes_(pairs.bytes) {
  slots_.resize(std::bit_ceil(2 * pairs.merges.size() + 2));
  shift_ = 64 - std::countr_zero(slots_.size());
  uint32_t rank = 0;
  for (const Merge& merge : pairs.merges) {
    const uint32_t pair = pair_of(merge.left, merge.right);
    size_t slot = first_slot(pair);
    while (slots_[slot].merge != kNone) slot = (slot + 1) & (slots_.size() - 1);
    slots_[slot] = {pair, rank++ << 16 | merge.result};
  }
}

size_t Merger::first_slot(uint32_t pair) const { return (pair * 0x9E3779B97F4A7C15U) >> shift_; }

Merger::Packed Merger::find(Token left, Token right) const {
  const uint32_t pair = pair_of(left, right);
  size_t slot = first_slot(pair);
  while (slots_[slot].merge != kNone && slots_[slot].pair != pair) slot = (slot + 1) & (slots_.size() - 1);
  return slots_[slot].merge;
}

void Merger::encode(std::string_view piece, std::vector<Token>& out) const {
  if (piece.size() <= kShort) return encode_short(piece, out);
  if (piece.size() >= UINT32_MAX) {
    throw InputError("encode", fmt::format("one word of {} bytes; words must be below 4 GiB", piece.size()));
  }
  encode_long(piece, out);
}

void Merger::encode_short(std::string_view piece, std::vector<Token>& out) const {
  Token tokens[kShort];
  Packed merges[kShort];  // of token i with token i + 1
  size_t count = piece.size();
  for (size_t i = 0; i < count; ++i) tokens[i] = bytes_[static_cast<unsigned char>(piece[i])];
  for (size_t i = 0; i + 1 < count; ++i) merges[i] = find(tokens[i], tokens[i + 1]);
  while (count > 1) {
    const auto best = static_cast<size_t>(std::min_element(merges, merges + count - 1) - merges);
    if (merges[best] == kNone) break;
    tokens[best] = result_of(merges[best]);
    std::copy(tokens + best + 2, tokens + count, tokens + best + 1);
    std::copy(merges + best + 1, merges + count - 1, merges + best);
    --count;
    if (best > 0) merges[best - 1] = find(tokens[best - 1], tokens[best]);
    if (best + 1 < count) merges[best] = find(tokens[best], tokens[best + 1]);
  }
  out.insert(out.end(), tokens, tokens + count);
}

// The tokens of a long piece as a doubly linked list, and a heap of the merges that are possible. A token is named by
// the place of its first byte; the heap's entries for merges that are gone by now are skipped.
class Merger::Chain {
 public:
  Chain(const Merger& merger, std::string_view piece) : merger_(merger), links_(piece.size()) {
    const auto size = static_cast<uint32_t>(piece.size());
    for (uint32_t i = 0; i < size; ++i) {
      links_[i] = {
          .previous = i - 1, .next = i + 1, .token = merger.bytes_[static_cast<unsigned char>(piece[i])]};
    }
    std::vector<uint64_t> entries;
    for (uint32_t i = 0; i < size; ++i) {
      if (const Packed merge = update(i); merge != kNone) entries.push_back(uint64_t{merge} << 32 | i);
    }
    heap_ = Heap(std::greater<>(), std::move(entries));
  }

  void merge_all() {
    while (!heap_.empty()) {
      const auto merge = static_cast<Packed>(heap_.top() >> 32);
      const auto at = static_cast<uint32_t>(heap_.top());
      heap_.pop();
      if (links_[at].merge == merge) merge_at(at);
    }
  }

  void append_to(std::vector<Token>& out) const {
    for (size_t i = 0; i < links_.size(); i = links_[i].next) out.push_back(links_[i].token);
  }

 private:
  struct Link {
    uint32_t previous, next;
    Packed merge = kNone;  // with the next token
    Token token;
  };
  using Heap = std::priority_queue<uint64_t, std::vector<uint64_t>, std::greater<>>;

  void merge_at(uint32_t at) {
    Link& left = links_[at];
    Link& right = links_[left.next];
    left.token = result_of(left.merge);
    left.next = right.next;
    right.merge = kNone;
    if (left.next < links_.size()) links_[left.next].previous = at;
    push(at);
    if (at > 0) push(left.previous);
  }

  void push(uint32_t at) {
    if (const Packed merge = update(at); merge != kNone) heap_.push(uint64_t{merge} << 32 | at);
  }

  Packed update(uint32_t at) {
    Link& link = links_[at];
    link.merge = link.next < links_.size() ? merger_.find(link.token, links_[link.next].token) : kNone;
    return link.merge;
  }

  const Merger& merger_;
  std::vector<Link> links_;
  Heap heap_;
};

void Merger::encode_long(std::string_view piece, std::vector<Token>& out) const {
  Chain chain(*this, piece);
  chain.merge_all();
  chain.append_to(out);
}

}  // namespace bridle
