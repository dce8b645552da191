// See old_spellings.h.
#include "old_spellings.h"

#include <algorithm>

namespace bridle {
namespace {

struct OldFlag {
  const char* verb;
  const char* flag;
  const char* now;
};

constexpr OldFlag kOldFlags[] = {{"certify", "--check", "bridle check CERTIFICATE"},
                                 {"certify", "--model", "bridle check CERTIFICATE --model DIR"},
                                 {"certify", "--seal", "bridle seal RUN --out DIR --lipschitz L"},
                                 {"certify", "--lipschitz", "bridle seal RUN --out DIR --lipschitz L"},
                                 {"attack", "--epsilon", "bridle attack RUN --eps ε,…"}};

bool has_flag(const std::vector<std::string>& words, const std::string& flag) {
  return std::any_of(words.begin(), words.end(), [&flag](const std::string& word) {
    return word == flag || word.starts_with(flag + "=");
  });
}

}  // namespace

std::string new_spelling(const std::vector<std::string>& words) {
  if (words.empty()) return "";
  for (const OldFlag& old : kOldFlags)
    if (words.front() == old.verb && has_flag(words, old.flag))
      return std::string(old.verb) + " " + old.flag + " is spelt " + old.now + " now";
  if (words.front() == "sweep" && words.size() > 1 && words[1].ends_with(".toml"))
    return "sweep SWEEP.toml is spelt bridle sweep run " + words[1] + " now";
  return "";
}

}  // namespace bridle
