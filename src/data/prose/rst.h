// The text of a reStructuredText file: headings, paragraphs and lists; no code, tables, pictures, comments or markup.
#pragma once

#include <string>
#include <string_view>

namespace bridle {

std::string text_of_rst(std::string_view rst);

}  // namespace bridle
