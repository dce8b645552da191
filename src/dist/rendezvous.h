// Where ranks find each other: tcp:HOST:PORT, where rank 0 listens, or file:PATH, where rank 0 writes the address that it has chosen.
// The ranks of one machine are given a listener that is open already: descriptor:NUMBER:PORT.
#pragma once

#include <filesystem>
#include <string>

#include "dist/sockets.h"

namespace bridle {

class Rendezvous {
 public:
  explicit Rendezvous(const std::string& text);  // throws InputError

  // Rank 0: listens. Others are told the word that the file holds besides the address, and show it: an old file leads nowhere.
  Descriptor listen();
  void close();  // the file has served

  std::optional<LineSocket> connect(std::chrono::milliseconds wait);
  bool is_given() const { return descriptor_ >= 0; }  // by whoever has started all ranks here
  const std::string& word() const { return word_; }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
  std::string word_ = "-";
  std::filesystem::path file_;  // empty: there is none
  HostPort place_;
  int descriptor_ = -1;
};

}  // namespace bridle
