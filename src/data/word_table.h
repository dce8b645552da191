// Words that are one token, found by their bytes in one step.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bridle/tokenizer.h"

namespace bridle {

class WordTable {
 public:
  // Keeps the words that `ids` lists; `words` must outlive the table.
  WordTable(const std::vector<std::string>& words, const std::vector<Token>& ids);

  std::optional<Token> find(std::string_view word) const;

 private:
  struct Slot {
    uint32_t tag = 0;  // part of the hash; most misses stop here
    Token id = 0;
    bool used = false;
  };
  const std::vector<std::string>& words_;
  std::vector<Slot> slots_;  // a power of two, at most half full
  size_t longest_ = 0;
};

}  // namespace bridle
