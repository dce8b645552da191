// PNG images in a folder per class, as pixels in [0, 1], plane by plane: [C, H, W].
#include <ATen/ops/from_blob.h>
#include <ATen/ops/stack.h>
#include <fmt/format.h>
#include <png.h>

#include <algorithm>

#include "bridle/error.h"
#include "data/table.h"

namespace bridle {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse(const fs::path& path, const std::string& what) {
  throw InputError("data import", fmt::format("{}: {}", path.string(), what));
}

struct Picture {
  int64_t width = 0, height = 0, channels = 0;
  at::Tensor pixels = {};  // float64, [C·H·W]
};

// Grey or RGB; transparency and more than eight bits are refused, as their meaning is not ours to choose.
Picture read_png(const fs::path& path) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  if (png_image_begin_read_from_file(&image, path.c_str()) == 0) refuse(path, image.message);
  const bool colour = (image.format & PNG_FORMAT_FLAG_COLOR) != 0;
  if ((image.format & (PNG_FORMAT_FLAG_ALPHA | PNG_FORMAT_FLAG_LINEAR)) != 0) {
    png_image_free(&image);
    refuse(path, "it must be grey or RGB with 8 bits, without transparency");
  }
  image.format = colour ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY;
  Picture picture{.width = image.width, .height = image.height, .channels = colour ? 3 : 1};
  std::vector<uint8_t> bytes(PNG_IMAGE_SIZE(image));
  if (png_image_finish_read(&image, nullptr, bytes.data(), 0, nullptr) == 0) refuse(path, image.message);
  picture.pixels = at::from_blob(bytes.data(), {picture.height, picture.width, picture.channels}, at::kByte)
                       .permute({2, 0, 1})
                       .to(at::kDouble)
                       .div(255.0)
                       .reshape({-1});
  return picture;
}

std::vector<fs::path> sorted_entries(const fs::path& folder, bool folders) {
  std::vector<fs::path> all;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const bool png = entry.is_regular_file() && entry.path().extension() == ".png";
    if (folders ? entry.is_directory() : png) all.push_back(entry.path());
  }
  std::sort(all.begin(), all.end());
  return all;
}

}  // namespace

Table read_image_folder(const VectorImport& options) {
  if (!fs::is_directory(options.images))
    refuse(options.images, "it must be a folder with a folder of PNG images per class");
  Table table;
  std::vector<at::Tensor> rows;
  std::vector<std::string> names;
  std::optional<Picture> first;
  for (const fs::path& folder : sorted_entries(options.images, true)) {
    for (const fs::path& path : sorted_entries(folder, false)) {
      const Picture picture = read_png(path);
      if (!first) first = picture;
      if (picture.width != first->width || picture.height != first->height ||
          picture.channels != first->channels)
        refuse(path, fmt::format("it has {} × {} pixels in {} channels, and the first image {} × {} in {}",
                                 picture.width, picture.height, picture.channels, first->width, first->height,
                                 first->channels));
      rows.push_back(picture.pixels);
      names.push_back(folder.filename().string());
    }
  }
  if (rows.empty()) refuse(options.images, "it holds no folder with PNG images");
  table.inputs = at::stack(rows);
  for (int64_t i = 0; i < table.inputs.size(1); ++i) table.columns.push_back(fmt::format("pixel{}", i));
  table.targets = classes_of(names, table.outputs);
  return table;
}

}  // namespace bridle
