// Text whose words carry their part of speech, as the Brown corpus has it: The/at jury/nn said/vbd ``/`` no/at ''/'' ./.
#pragma once

#include <string>
#include <string_view>

namespace bridle {

// The words without tags, punctuation set to the word that it belongs to; a line each, as it stands.
std::string text_of_tagged(std::string_view tagged);

}  // namespace bridle
