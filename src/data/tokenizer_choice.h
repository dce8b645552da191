// The tokenizer that a user has named.
#pragma once

#include <memory>

#include "bridle/data.h"

namespace bridle {

// GPT-2's files are fetched where they are not there. Null for "characters", whose vocabulary comes from the text. Throws
// InputError where the name is none that is known, and where there are fewer merges than were asked for.
std::unique_ptr<Tokenizer> open_tokenizer(const TokenizerChoice& choice, const Listener& listener);

}  // namespace bridle
