// All about the options of a transformer in one place: keys with their ranges, what is filled in, what is refused, and which of them
// the fused pass knows.
#pragma once

#include <string>

#include "base/settings.h"
#include "bridle/architecture.h"

namespace bridle {

Settings transformer_settings(TransformerOptions& options);

// Fills in what is 0 and refuses what cannot be. Throws InputError.
void resolve_(TransformerOptions& options);

// The key whose value the fused pass does not compute; empty where it computes all of them.
std::string unfused_key(const TransformerOptions& options);

}  // namespace bridle
