// CIFAR-10 in its canonical binary layout: records of one label byte and 3,072 pixels (1,024 red, green, blue; rows first),
// 10,000 records a file.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <vector>

#include "bridle/data.h"

namespace bridle {

constexpr int64_t kCifarPixels = 3072;
constexpr int64_t kCifarClasses = 10;
constexpr size_t kCifarRecord = kCifarPixels + 1;

struct CifarFile {
  const char* name;    // without suffix: NAME.bin, and NAME.png in the npm package
  const char* sha256;  // of NAME.bin
};
constexpr int64_t kCifarImagesPerFile = 10000;
extern const std::array<CifarFile, 6> kCifarFiles;  // the last one is the test set

// Decodes a PNG with one image a row, 1,024 RGB pixels wide, and writes records with these labels.
void write_records_of_png(const std::filesystem::path& png, std::span<const uint8_t> labels,
                          const std::filesystem::path& out);

// The npm package's labels: one JSON array of integers 0 … 9, `count` of them.
std::vector<uint8_t> read_labels(const std::filesystem::path& json, int64_t count);

// Checksums, class counts and first labels of the six files in the folder. Throws InputError at the first that is wrong.
void check_cifar(const std::filesystem::path& folder);

}  // namespace bridle
