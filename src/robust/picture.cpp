// A sheet of images as a PNG file, to look at.
#include "bridle/attack.h"

#include <ATen/ops/full.h>
#include <fmt/format.h>
#include <png.h>

#include <cmath>
#include <vector>

#include "base/files.h"
#include "bridle/error.h"

namespace bridle {
namespace {

constexpr int64_t kGap = 2;  // pixels between images, before they are enlarged

int64_t side_of(int64_t pixels) {
  return static_cast<int64_t>(std::lround(std::sqrt(static_cast<double>(pixels) / 3.0)));
}

std::string encoded(const at::Tensor& sheet) {  // [height, width, 3] bytes
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.height = static_cast<png_uint_32>(sheet.size(0));
  image.width = static_cast<png_uint_32>(sheet.size(1));
  image.format = PNG_FORMAT_RGB;
  std::string bytes(PNG_IMAGE_PNG_SIZE_MAX(image), '\0');
  png_alloc_size_t size = bytes.size();
  const auto values = sheet.accessor<uint8_t, 3>();
  std::vector<uint8_t> pixels;
  for (int64_t row = 0; row < sheet.size(0); ++row)
    for (int64_t column = 0; column < sheet.size(1); ++column)
      for (int64_t channel = 0; channel < 3; ++channel) pixels.push_back(values[row][column][channel]);
  if (png_image_write_to_memory(&image, bytes.data(), &size, 0, pixels.data(), 0, nullptr) == 0)
    throw InputError("picture", fmt::format("no PNG can be made: {}", image.message));
  bytes.resize(size);
  return bytes;
}

}  // namespace

bool is_square_picture(int64_t pixels) {
  const int64_t side = side_of(pixels);
  return side > 0 && 3 * side * side == pixels;
}

void write_sheet(const at::Tensor& images, const std::filesystem::path& path, int64_t scale) {
  if (!is_square_picture(images.size(2)))
    throw InputError("picture", fmt::format("{} pixels are not three square channels", images.size(2)));
  const int64_t columns = images.size(0);
  const int64_t rows = images.size(1);
  const int64_t side = side_of(images.size(2));
  const int64_t step = side + kGap;
  const at::Tensor sheet =
      at::full({rows * step - kGap, columns * step - kGap, 3}, 255, images.options().dtype(at::kByte));
  const at::Tensor bytes = images.mul(255.0).round().clamp(0.0, 255.0).to(at::kByte);
  for (int64_t column = 0; column < columns; ++column)
    for (int64_t row = 0; row < rows; ++row)
      sheet.narrow(0, row * step, side)
          .narrow(1, column * step, side)
          .copy_(bytes[column][row].view({3, side, side}).permute({1, 2, 0}));
  write_file(path, encoded(sheet.repeat_interleave(scale, 0).repeat_interleave(scale, 1).contiguous()));
}

}  // namespace bridle
