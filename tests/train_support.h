// Small runs for tests: a data set in a temporary cache, and options for models that train in milliseconds.
#pragma once

#include "bridle/run.h"
#include "bridle/train.h"
#include "data_support.h"

namespace bridle::test {

// Sentences of a small grammar: what follows a letter depends on more than that letter.
std::string grammar_text(size_t characters, uint64_t seed = 1);

// `words` in the temporary data folder, 27 characters.
void import_words(const TemporaryData& data, size_t characters = 20000);

// A transformer of two blocks of width 32 on `words`.
RunOptions small_run();

// A run of two steps on `words`, in the folder `run`, opened.
Run short_run(const TemporaryData& data);

// The entropy that counting pairs of characters in the training part reaches on the validation part, in nats.
double bigram_loss(const std::string& data_name);

}  // namespace bridle::test
