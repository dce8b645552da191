// Whatever happens to a safetensors file, reading it gives an InputError or tensors that fill the file exactly, and
// touches no byte behind its end: the bytes lie before a page that may not be read.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cctype>
#include <cstring>
#include <random>

#include "bridle/error.h"
#include "io/safetensors_decode.h"
#include "io/safetensors_support.h"

namespace bridle {
namespace {

class GuardedPages {
 public:
  GuardedPages() {
    EXPECT_NE(pages_, MAP_FAILED);
    EXPECT_EQ(mprotect(end(), size_, PROT_NONE), 0);
  }
  ~GuardedPages() { munmap(pages_, 2 * size_); }
  GuardedPages(const GuardedPages&) = delete;
  GuardedPages& operator=(const GuardedPages&) = delete;

  std::span<const std::byte> hold(const std::string& bytes) {
    std::byte* begin = end() - bytes.size();
    std::memcpy(begin, bytes.data(), bytes.size());
    return {begin, bytes.size()};
  }

 private:
  std::byte* end() { return static_cast<std::byte*>(pages_) + size_; }
  size_t size_ = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  void* pages_ = mmap(nullptr, 2 * size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
};

class SafetensorsDamage : public testing::Test {
 protected:
  void read(const std::string& bytes) {
    try {
      const SafetensorsFile file = decode_safetensors(pages_.hold(bytes), "a.st");
      size_t size = 8 + static_cast<unsigned char>(bytes[0]) + 256u * static_cast<unsigned char>(bytes[1]);
      for (const auto& [name, tensor] : file.tensors) {
        size += tensor.nbytes();
        tensor.to(at::kDouble).sum().item<double>();
      }
      EXPECT_EQ(size, bytes.size()) << testing::PrintToString(bytes);
      ++accepted_;
    } catch (const InputError&) {
      ++refused_;
    }
  }

  const std::string header_ =
      R"({"__metadata__":{"by":"\u00e9\n"},"w":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
      R"("é":{"dtype":"BF16","shape":[],"data_offsets":[24,26]},"none":{"dtype":"I64","shape":[0,9],)"
      R"("data_offsets":[26,26]},"b":{"dtype":"BOOL","shape":[11],"data_offsets":[26,37]}}  )";
  const std::string good_ = test::safetensors_bytes(header_, std::string(37, '\1'));
  const size_t head_ = 8 + header_.size();
  int accepted_ = 0;
  int refused_ = 0;

 private:
  GuardedPages pages_;
};

TEST_F(SafetensorsDamage, ByNothingIsAccepted) {
  read(good_);
  EXPECT_EQ(accepted_, 1);
}

TEST_F(SafetensorsDamage, ByOneChangedByteIsHarmless) {
  for (size_t i = 0; i < head_; ++i) {
    for (int value = 0; value < 256; ++value) {
      std::string bytes = good_;
      bytes[i] = static_cast<char>(value);
      read(bytes);
    }
  }
  EXPECT_GT(accepted_, static_cast<int>(head_));  // the byte that was there, and other names
  EXPECT_GT(refused_, 10 * accepted_);
}

TEST_F(SafetensorsDamage, ByTruncationIsAlwaysSeen) {
  for (size_t size = 0; size < good_.size(); ++size) read(good_.substr(0, size));
  EXPECT_EQ(accepted_, 0);
}

TEST_F(SafetensorsDamage, ByInsertionIsHarmless) {
  for (size_t i = 0; i <= head_; ++i) {
    for (const char value : std::string("\0\xff \"\\,:{}[]019-eEu/\x7f\n", 21)) {
      std::string bytes = good_;
      bytes.insert(i, 1, value);
      read(bytes);
      if (i >= 8) read(test::safetensors_bytes(bytes.substr(8, header_.size() + 1), bytes.substr(head_ + 1)));
    }
  }
  EXPECT_GT(accepted_, 0);
  EXPECT_GT(refused_, accepted_);
}

TEST_F(SafetensorsDamage, ByRemovalIsHarmless) {
  for (size_t i = 0; i < head_; ++i) {
    std::string bytes = good_;
    bytes.erase(i, 1);
    read(bytes);
    if (i >= 8) read(test::safetensors_bytes(bytes.substr(8, header_.size() - 1), bytes.substr(head_ - 1)));
  }
  EXPECT_GT(refused_, accepted_);
}

TEST_F(SafetensorsDamage, OfNumbersIsHarmless) {
  for (size_t i = 0; i < header_.size(); ++i) {
    if (!std::isdigit(static_cast<unsigned char>(header_[i]))) continue;
    for (const char* number : {"0", "1", "-0", "-1", "1e2", "2147483648", "4294967296", "9223372036854775807",
                               "9223372036854775808", "18446744073709551615", "18446744073709551616"})
      read(test::safetensors_bytes(std::string(header_).replace(i, 1, number), good_.substr(head_)));
  }
  EXPECT_GT(refused_, accepted_);
}

TEST_F(SafetensorsDamage, OfManyKindsAtOnceIsHarmless) {
  std::mt19937 random(1);
  for (int round = 0; round < 20000; ++round) {
    std::string bytes = header_;
    for (uint32_t change = random() % 4 + 1; change > 0; --change) {
      const size_t at = random() % bytes.size();
      const size_t from = random() % bytes.size();
      const size_t length = random() % 12;
      if (random() % 2 == 0)
        bytes.replace(at, length, header_.substr(std::min(from, header_.size()), length));
      else
        bytes.insert(at, header_.substr(std::min(from, header_.size()), length + 1));
    }
    read(test::safetensors_bytes(bytes, good_.substr(head_)));
  }
  EXPECT_GT(refused_, accepted_);
}

}  // namespace
}  // namespace bridle
