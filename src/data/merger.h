// Byte-pair merging: a pretoken's bytes become tokens, and while two neighbours can be merged, all pairs of the lowest
// rank are, from left to right.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "data/byte_pair_files.h"

namespace bridle {

class Merger {
 public:
  explicit Merger(const BytePairs& pairs);

  // Appends the tokens of the piece. Takes n log n time of n bytes. Safe from several threads at once.
  void encode(std::string_view piece, std::vector<Token>& out) const;

 private:
  // Rank and result of a merge in one number, so that numbers order as ranks.
  using Packed = uint32_t;
  static constexpr Packed kNone = UINT32_MAX;
  struct Slot {
    uint32_t pair = 0;
    Packed merge = kNone;  // kNone where the slot is empty
  };
  class Chain;

  Packed find(Token left, Token right) const;
  size_t first_slot(uint32_t pair) const;
  void encode_short(std::string_view piece, std::vector<Token>& out) const;
  void encode_long(std::string_view piece, std::vector<Token>& out) const;

  std::array<Token, 256> bytes_;
  std::vector<Slot> slots_;  // a power of two, at most half full
  int shift_ = 0;
};

}  // namespace bridle
