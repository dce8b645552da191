#include "data/cifar.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <png.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/checksum.h"
#include "base/files.h"
#include "bridle/error.h"

namespace bridle {

const std::array<CifarFile, 6> kCifarFiles{{
    {"data_batch_1", "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5"},
    {"data_batch_2", "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed"},
    {"data_batch_3", "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67"},
    {"data_batch_4", "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48"},
    {"data_batch_5", "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add"},
    {"test_batch", "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b"},
}};

namespace {

constexpr size_t kPlane = kCifarPixels / 3;
constexpr std::array<uint8_t, 10> kFirstTestLabels{3, 8, 8, 0, 6, 6, 1, 6, 3, 1};

[[noreturn]] void refuse(const std::filesystem::path& path, const std::string& what) {
  throw InputError("cifar10", fmt::format("{}: {}; fetch it again", path.string(), what));
}

std::vector<uint8_t> decode_png(const std::filesystem::path& path, size_t rows) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  if (png_image_begin_read_from_file(&image, path.c_str()) == 0) refuse(path, image.message);
  if (image.width != kPlane || image.height != rows || image.format != PNG_FORMAT_RGB) {
    const std::string got =
        fmt::format("{} × {} pixels of format {:#x}", image.width, image.height, image.format);
    png_image_free(&image);
    refuse(path, fmt::format("{} instead of {} × {} in RGB", got, kPlane, rows));
  }
  std::vector<uint8_t> pixels(PNG_IMAGE_SIZE(image));
  if (png_image_finish_read(&image, nullptr, pixels.data(), 0, nullptr) == 0) refuse(path, image.message);
  return pixels;
}

}  // namespace

void write_records_of_png(const std::filesystem::path& png, std::span<const uint8_t> labels,
                          const std::filesystem::path& out) {
  const std::vector<uint8_t> pixels = decode_png(png, labels.size());
  OutputFile file(out);
  std::array<uint8_t, kCifarRecord> record{};
  for (size_t row = 0; row < labels.size(); ++row) {
    record[0] = labels[row];
    const uint8_t* rgb = pixels.data() + row * kCifarPixels;
    for (size_t i = 0; i < kPlane; ++i) {
      for (size_t channel = 0; channel < 3; ++channel)
        record.at(1 + channel * kPlane + i) = rgb[3 * i + channel];
    }
    file.write(std::as_bytes(std::span(record)));
  }
  file.close();
}

std::vector<uint8_t> read_labels(const std::filesystem::path& json, int64_t count) {
  const auto values = nlohmann::json::parse(read_file(json), nullptr, /*allow_exceptions=*/false);
  if (!values.is_array() || static_cast<int64_t>(values.size()) != count)
    refuse(json, fmt::format("not a JSON array of {} labels", count));
  std::vector<uint8_t> labels;
  for (const auto& value : values) {
    if (!value.is_number_integer() || value.get<int64_t>() < 0 || value.get<int64_t>() >= kCifarClasses)
      refuse(json, fmt::format("label {} is {}, not one of 0 … 9", labels.size(), value.dump()));
    labels.push_back(value.get<uint8_t>());
  }
  return labels;
}

void check_cifar(const std::filesystem::path& folder) {
  std::array<int64_t, kCifarClasses> train{};
  std::array<int64_t, kCifarClasses> test{};
  std::array<uint8_t, 10> first{};
  for (const CifarFile& batch : kCifarFiles) {
    const bool is_test = &batch == &kCifarFiles.back();
    const std::filesystem::path path = folder / (std::string(batch.name) + ".bin");
    const MappedFile file(path);
    if (file.bytes().size() != kCifarRecord * kCifarImagesPerFile)
      refuse(path,
             fmt::format("{} bytes instead of {}", file.bytes().size(), kCifarRecord * kCifarImagesPerFile));
    for (size_t i = 0; i < kCifarImagesPerFile; ++i) {
      const auto label = std::to_integer<uint8_t>(file.bytes()[i * kCifarRecord]);
      if (label >= kCifarClasses) refuse(path, fmt::format("label {} of image {}", label, i));
      ++(is_test ? test : train).at(label);
      if (is_test && i < first.size()) first.at(i) = label;
    }
    const std::string sum = sha256_of_file(path);
    if (sum != batch.sha256) refuse(path, fmt::format("its SHA-256 is {} instead of {}", sum, batch.sha256));
  }
  const auto all = [](const auto& counts, int64_t n) {
    return std::all_of(counts.begin(), counts.end(), [n](int64_t c) { return c == n; });
  };
  if (!all(train, 5000) || !all(test, 1000))
    refuse(folder, "the classes are not 5,000 images each, and 1,000 in the test set");
  if (first != kFirstTestLabels)
    refuse(folder, fmt::format("the test set begins with labels {}", fmt::join(first, " ")));
}

}  // namespace bridle
