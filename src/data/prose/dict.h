// Dictionaries in dictd's format: an index of lines "headword TAB offset TAB length" (numbers in base 64), and the text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace bridle {

// The entries in the text's order, each once, joined into documents of about `size` bytes. Links {so}, pronunciations \so\ and
// the names of an entry's source ([1913 Webster]) go; an entry's lines become paragraphs. Throws InputError, naming `name`,
// where the index does not fit the text.
std::vector<std::string> documents_of_dict(const std::string& name, std::string_view index,
                                           std::string_view text, size_t size = 4000);

}  // namespace bridle
