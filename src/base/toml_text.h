// TOML as it stands in a file: the one place where it is parsed. The parser calls itself once a level of nesting, and tables end in
// the same way, so that a text of a few kilobytes could end the process: depth and size are limited before it begins.
#pragma once

#include <toml++/toml.h>

#include <filesystem>
#include <string>
#include <string_view>

namespace bridle {

constexpr size_t kTomlLargestText = size_t{1} << 20;  // bytes
constexpr int kTomlMostKeyParts = 16;                 // a.b.c has three
constexpr int kTomlMostNested = 32;                   // arrays and inline tables inside one another

// Throws InputError "[operation] origin, line …" for text beyond the limits and for text that is not TOML.
toml::table parse_toml(std::string_view text, const char* operation, const std::string& origin);
toml::table parse_toml_file(const std::filesystem::path& path, const char* operation);

}  // namespace bridle
