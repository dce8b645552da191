#include "bridle/attack.h"

#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <png.h>

#include "bridle/error.h"
#include "file_support.h"
#include "support.h"

namespace bridle {
namespace {

TEST(Picture, HasEveryImageInItsPlace) {
  const test::TemporaryFolder folder;
  const at::Tensor images = at::zeros({3, 2, 12}, at::kFloat);  // 2 × 2 pixels
  images[1][0].narrow(0, 0, 4).fill_(1.0);                      // red
  images[2][1].narrow(0, 8, 4).fill_(0.5);                      // half blue
  write_sheet(images, folder / "sheet.png", 3);
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  ASSERT_NE(png_image_begin_read_from_file(&image, (folder / "sheet.png").c_str()), 0);
  image.format = PNG_FORMAT_RGB;
  ASSERT_EQ(image.width, 30U);  // 3 images of 2 and 2 gaps of 2, three times as large
  ASSERT_EQ(image.height, 18U);
  std::vector<uint8_t> pixels(PNG_IMAGE_SIZE(image));
  ASSERT_NE(png_image_finish_read(&image, nullptr, pixels.data(), 0, nullptr), 0);
  const auto at = [&](size_t row, size_t column) {
    const size_t place = 3 * (row * 30 + column);
    return std::vector<int>{pixels[place], pixels[place + 1], pixels[place + 2]};
  };
  EXPECT_EQ(at(0, 0), (std::vector{0, 0, 0}));
  EXPECT_EQ(at(0, 7), (std::vector{255, 255, 255}));  // between two
  EXPECT_EQ(at(5, 12), (std::vector{255, 0, 0}));
  EXPECT_EQ(at(13, 25), (std::vector{0, 0, 128}));
}

TEST(Picture, RefusesWhatIsNoPicture) {
  const test::TemporaryFolder folder;
  EXPECT_TRUE(is_square_picture(3072));
  EXPECT_FALSE(is_square_picture(784));
  EXPECT_ERROR(write_sheet(at::zeros({1, 1, 784}), folder / "sheet.png"), InputError, "784 pixels");
}

}  // namespace
}  // namespace bridle
