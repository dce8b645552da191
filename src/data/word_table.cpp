// See word_table.h. Open addressing; slots hold ids, and the words stay where they are.
#include "data/word_table.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace bridle {
namespace {

template <class Integer>
uint64_t load(const char* bytes) {
  Integer value;
  std::memcpy(&value, bytes, sizeof(value));
  return value;
}

uint64_t mix(uint64_t value) {  // the end of MurmurHash3
  value = (value ^ value >> 33) * 0xFF51AFD7ED558CCDU;
  value = (value ^ value >> 33) * 0xC4CEB9FE1A85EC53U;
  return value ^ value >> 33;
}

// Eight bytes at a time; what is read of the rest covers it, in part twice.
uint64_t hash_of(std::string_view word) {
  uint64_t hash = word.size() * 0x9E3779B97F4A7C15U;
  for (; word.size() > 8; word.remove_prefix(8)) hash = mix(hash ^ load<uint64_t>(word.data()));
  const char* end = word.data() + word.size();
  uint64_t rest = 0;
  if (word.size() >= 4) {
    rest = load<uint32_t>(word.data()) | load<uint32_t>(end - 4) << 32;
  } else if (word.size() >= 2) {
    rest = load<uint16_t>(word.data()) | load<uint16_t>(end - 2) << 16;
  } else if (!word.empty()) {
    rest = load<unsigned char>(word.data());
  }
  return mix(hash ^ rest);
}

}  // namespace

WordTable::WordTable(const std::vector<std::string>& words, const std::vector<Token>& ids)
    : words_(words), slots_(std::bit_ceil(2 * ids.size() + 2)) {
  for (const Token id : ids) {
    const uint64_t hash = hash_of(words[id]);
    size_t slot = hash & (slots_.size() - 1);
    while (slots_[slot].used) slot = (slot + 1) & (slots_.size() - 1);
    slots_[slot] = {.tag = static_cast<uint32_t>(hash >> 32), .id = id, .used = true};
    longest_ = std::max(longest_, words[id].size());
  }
}

std::optional<Token> WordTable::find(std::string_view word) const {
  if (word.size() > longest_) return std::nullopt;
  const uint64_t hash = hash_of(word);
  const auto tag = static_cast<uint32_t>(hash >> 32);
  for (size_t slot = hash & (slots_.size() - 1); slots_[slot].used; slot = (slot + 1) & (slots_.size() - 1)) {
    if (slots_[slot].tag == tag && words_[slots_[slot].id] == word) return slots_[slot].id;
  }
  return std::nullopt;
}

}  // namespace bridle
