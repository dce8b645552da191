// A model as a folder for PyTorch: its two files as they are, and modeling_bridle.py, which makes an nn.Module of them and needs
// PyTorch alone.
#pragma once

#include <filesystem>
#include <string>

namespace bridle {

// The module's text.
std::string torch_module();

// Writes it into the folder. Throws InputError where it cannot be written.
void write_torch_module(const std::filesystem::path& folder);

}  // namespace bridle
