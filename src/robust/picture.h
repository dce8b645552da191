// A sheet of images as a PNG file, to look at.
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>

namespace bridle {

// `images` [columns, rows, pixels] in [0, 1], three channels of a square each, enlarged `scale` times. Throws InputError.
void write_sheet(const at::Tensor& images, const std::filesystem::path& path, int64_t scale = 3);

// Whether `pixels` are three square channels.
bool is_square_picture(int64_t pixels);

}  // namespace bridle
