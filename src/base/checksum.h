// SHA-256, as lower-case hexadecimal digits.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

namespace bridle {

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void update(std::span<const std::byte> bytes);
  std::string digest();  // ends it

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::string sha256_of_file(const std::filesystem::path& path);

}  // namespace bridle
