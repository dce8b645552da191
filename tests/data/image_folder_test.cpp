#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>
#include <png.h>

#include "base/files.h"
#include "bridle/error.h"
#include "data/table.h"
#include "file_support.h"

namespace bridle {
namespace {

void write_png(const std::filesystem::path& path, uint32_t width, uint32_t height, uint32_t format,
               const std::vector<uint8_t>& pixels) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = width;
  image.height = height;
  image.format = format;
  ASSERT_NE(png_image_write_to_file(&image, path.c_str(), 0, pixels.data(), 0, nullptr), 0);
}

TEST(AnImageFolder, GivesPixelsPlaneByPlaneAndClassesByTheirFolders) {
  const test::TemporaryFolder folder;
  make_folder(folder / "cat");
  make_folder(folder / "dog");
  write_png(folder / "dog" / "a.png", 2, 1, PNG_FORMAT_RGB, {255, 0, 51, 102, 153, 204});
  write_png(folder / "cat" / "a.png", 2, 1, PNG_FORMAT_RGB, {1, 2, 3, 4, 5, 6});
  write_file(folder / "dog" / "notes.txt", "not an image");
  const Table table = read_image_folder({.images = folder});
  EXPECT_EQ(table.outputs, (std::vector<std::string>{"cat", "dog"}));
  EXPECT_TRUE(table.targets.equal(at::tensor({0, 1}, at::kLong)));
  EXPECT_TRUE(
      table.inputs[1].mul(255.0).allclose(at::tensor({255.0, 102.0, 0.0, 153.0, 51.0, 204.0}, at::kDouble)));
}

TEST(AnImageFolder, IsRefusedWhereImagesDifferOrAreDamaged) {
  const test::TemporaryFolder folder;
  EXPECT_ERROR(read_image_folder({.images = folder / "none"}), InputError,
               "a folder of PNG images per class");
  EXPECT_ERROR(read_image_folder({.images = folder}), InputError, "holds no folder with PNG images");
  make_folder(folder / "a");
  make_folder(folder / "b");
  write_png(folder / "a" / "1.png", 2, 1, PNG_FORMAT_GRAY, {1, 2});
  EXPECT_ERROR(read_image_folder({.images = folder}), InputError, "at least two classes");
  write_png(folder / "b" / "1.png", 1, 2, PNG_FORMAT_GRAY, {1, 2});
  EXPECT_ERROR(read_image_folder({.images = folder}), InputError, "it has 1 × 2 pixels");
  write_png(folder / "b" / "1.png", 2, 1, PNG_FORMAT_RGB, {1, 2, 3, 4, 5, 6});
  EXPECT_ERROR(read_image_folder({.images = folder}), InputError, "in 3 channels");
  write_png(folder / "b" / "1.png", 2, 1, PNG_FORMAT_RGBA, {1, 2, 3, 4, 5, 6, 7, 8});
  EXPECT_ERROR(read_image_folder({.images = folder}), InputError, "without transparency");
  write_file(folder / "b" / "1.png", "no png");
  EXPECT_ERROR(read_image_folder({.images = folder}), InputError, "1.png");
}

}  // namespace
}  // namespace bridle
