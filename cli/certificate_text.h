// A certificate as people read it: what it states, and where the bound goes, layer by layer.
#pragma once

#include "bridle/certificate_file.h"

namespace bridle {

void print_certificate(const Certificate& certificate);

// A table with bars; of a deep model the layers with the largest shares.
void print_layers(const Certificate& certificate);

}  // namespace bridle
