// The text of an HTML page: paragraphs with an empty line between; no markup, scripts, code listings or navigation.
#pragma once

#include <string>
#include <string_view>

namespace bridle {

// Never fails: what is not HTML passes as text. Bytes that are not ASCII are kept as they are.
std::string text_of_html(std::string_view html);

}  // namespace bridle
