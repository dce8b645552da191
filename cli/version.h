// Which Bridle this is.
#pragma once

#include <string>

namespace bridle {

std::string version_text();  // "bridle 0.1.0 (1e6ac82), LibTorch 1.13.0"
std::string commit();        // what it was built from; empty outside of a repository

}  // namespace bridle
