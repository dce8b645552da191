#include "data/cifar.h"

#include <png.h>

#include "base/files.h"
#include "bridle/error.h"
#include "file_support.h"

namespace bridle {
namespace {

using test::FileSizeLimit;
using test::TemporaryFolder;

void write_png(const std::filesystem::path& path, png_uint_32 width, png_uint_32 height, png_uint_32 format) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = width;
  image.height = height;
  image.format = format;
  std::vector<uint8_t> pixels(PNG_IMAGE_SIZE(image));
  for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<uint8_t>(i % 251);
  ASSERT_NE(png_image_write_to_file(&image, path.c_str(), 0, pixels.data(), 0, nullptr), 0);
}

TEST(Cifar, ARowOfThePngBecomesThreePlanes) {
  const TemporaryFolder folder;
  write_png(folder / "a.png", 1024, 3, PNG_FORMAT_RGB);
  const std::vector<uint8_t> labels{7, 8, 9};
  write_records_of_png(folder / "a.png", labels, folder / "a.bin");
  const std::string bytes = read_file(folder / "a.bin");
  ASSERT_EQ(bytes.size(), 3 * kCifarRecord);
  for (size_t row = 0; row < 3; ++row) {
    const std::string record = bytes.substr(row * kCifarRecord, kCifarRecord);
    EXPECT_EQ(record[0], static_cast<char>(7 + row));
    for (size_t channel = 0; channel < 3; ++channel) {
      for (size_t i = 0; i < 1024; ++i)
        ASSERT_EQ(static_cast<uint8_t>(record[1 + 1024 * channel + i]), (row * 3072 + 3 * i + channel) % 251);
    }
  }
}

TEST(Cifar, RefusesAPngOfOtherDimensions) {
  const TemporaryFolder folder;
  const std::vector<uint8_t> labels(3);
  const auto refused = [&](const char* part) {
    EXPECT_ERROR(write_records_of_png(folder / "a.png", labels, folder / "a.bin"), InputError, part);
    EXPECT_FALSE(std::filesystem::exists(folder / "a.bin"));
  };
  write_png(folder / "a.png", 1024, 2, PNG_FORMAT_RGB);
  refused("1024 × 2 pixels of format 0x2 instead of 1024 × 3");
  write_png(folder / "a.png", 1000, 3, PNG_FORMAT_RGB);
  refused("1000 × 3");
  write_png(folder / "a.png", 1024, 3, PNG_FORMAT_GRAY);
  refused("format 0x0");
  write_png(folder / "a.png", 1024, 3, PNG_FORMAT_RGB);
  const std::string good = read_file(folder / "a.png");
  write_file(folder / "a.png", good.substr(0, good.size() / 2));
  refused("a.png");
  write_file(folder / "a.png", "");
  refused("a.png");
}

TEST(Cifar, SaysThatTheDiskIsFull) {
  const TemporaryFolder folder;
  write_png(folder / "a.png", 1024, 3, PNG_FORMAT_RGB);
  const FileSizeLimit limit(1000);
  EXPECT_ERROR(write_records_of_png(folder / "a.png", std::vector<uint8_t>(3), folder / "a.bin"), InputError,
               "File too large");
}

TEST(Cifar, ReadsLabelsStrictly) {
  const TemporaryFolder folder;
  const auto labels = [&](const char* text) {
    write_file(folder / "l.json", text);
    return read_labels(folder / "l.json", 3);
  };
  EXPECT_EQ(labels("[3, 0, 9]"), (std::vector<uint8_t>{3, 0, 9}));
  EXPECT_ERROR(labels("[3, 0]"), InputError, "not a JSON array of 3 labels");
  EXPECT_ERROR(labels("[3, 0, 1"), InputError, "not a JSON array of 3 labels");
  EXPECT_ERROR(labels("[3, 10, 1]"), InputError, "label 1 is 10");
  EXPECT_ERROR(labels("[3, 1.5, 1]"), InputError, "label 1 is 1.5");
}

TEST(Cifar, ChecksWhatItHasMade) {
  const TemporaryFolder folder;
  const std::string zeros(kCifarRecord * kCifarImagesPerFile, '\0');
  EXPECT_ERROR(check_cifar(folder), InputError, "data_batch_1.bin: No such file");
  write_file(folder / "data_batch_1.bin", zeros.substr(1));
  EXPECT_ERROR(check_cifar(folder), InputError, "30729999 bytes instead of 30730000");
  write_file(folder / "data_batch_1.bin", zeros);
  EXPECT_ERROR(check_cifar(folder), InputError, "SHA-256 is");
  write_file(folder / "data_batch_1.bin", std::string(zeros.size(), '\x0b'));
  EXPECT_ERROR(check_cifar(folder), InputError, "label 11 of image 0");
}

}  // namespace
}  // namespace bridle
