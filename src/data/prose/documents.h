// The documents of a package, as plain text.
#pragma once

#include <functional>
#include <string>

#include "bridle/progress.h"
#include "data/prose/packages.h"

namespace bridle {

// Empty where a document's encoding cannot be read.
using OnDocument = std::function<void(std::string text)>;

// Gives every document of the package in the order of its files; not yet cleaned of duplicates and of what is too short.
// Throws InputError where the package is damaged, or where its files are not those that are expected.
void read_documents(const FetchedPackage& package, const OnDocument& on_document,
                    const OnProgress& on_progress);

}  // namespace bridle
