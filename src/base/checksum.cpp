#include "base/checksum.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <array>

#include "base/files.h"
#include "bridle/error.h"

namespace bridle {

struct Sha256::State {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
};

Sha256::Sha256() : state_(std::make_unique<State>()) {
  if (EVP_DigestInit_ex(state_->context, EVP_sha256(), nullptr) != 1)
    throw InputError("checksum", "this machine's OpenSSL refuses SHA-256");
}

Sha256::~Sha256() { EVP_MD_CTX_free(state_->context); }

void Sha256::update(std::span<const std::byte> bytes) {
  EVP_DigestUpdate(state_->context, bytes.data(), bytes.size());
}

std::string Sha256::digest() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> raw{};
  unsigned int size = 0;
  EVP_DigestFinal_ex(state_->context, raw.data(), &size);
  std::string text;
  for (unsigned int i = 0; i < size; ++i) text += fmt::format("{:02x}", raw.at(i));
  return text;
}

std::string sha256_of_file(const std::filesystem::path& path) {
  Sha256 hash;
  hash.update(MappedFile(path).bytes());
  return hash.digest();
}

}  // namespace bridle
