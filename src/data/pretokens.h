// GPT-2's first step: text into pretokens, which byte pairs never cross. They are the matches of
//   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
// and leave nothing out. \s is JavaScript's, as in the npm package gpt-3-encoder; in OpenAI's Python U+0085 is in it and
// U+FEFF is not.
#pragma once

#include <cstddef>
#include <string_view>

namespace bridle {

// Where the pretoken ends that starts at `start`; requires valid UTF-8 and start < text.size().
size_t pretoken_end(std::string_view text, size_t start);

// The last place p of `text` where a pretoken ends and another starts, whatever follows `text`, and where the
// pretokens of text[0, p) do not depend on what stands at p; 0 where there is none. The text may end inside a character.
size_t last_safe_cut(std::string_view text);

}  // namespace bridle
