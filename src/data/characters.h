// The character tokenizer's file; see bridle/tokenizer.h for the rest.
#pragma once

#include "bridle/tokenizer.h"

namespace bridle {

std::unique_ptr<Tokenizer> load_character_tokenizer(const std::filesystem::path& folder);

}  // namespace bridle
