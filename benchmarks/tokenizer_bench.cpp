// GPT-2's tokenizer on text files, on one core, as a ratio to counting the words of the same bytes: split at ASCII
// spaces, and one look-up a word in a std::unordered_map that has them all.
//   tokenizer_bench GPT2_FOLDER TEXT… [--benchmark_format=json]
// Counters: mb_per_s (of encode), ratio (median of encode / median of counting), op_us, bare_us. The tokenizer keeps no
// cache: the first run over a text is no slower than the others, but for the processor's own caches.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/files.h"
#include "bridle/error.h"
#include "bridle/tokenizer.h"
#include "compare.h"

namespace bridle {
namespace {

using Counts = std::unordered_map<std::string_view, int64_t>;

void count_words(std::string_view text, Counts& counts) {
  for (size_t start = 0; start < text.size();) {
    const size_t end = std::min(text.find(' ', start + 1), text.size());
    ++counts[text.substr(start, end - start)];
    start = end;
  }
}

void run_encode(benchmark::State& state, const Tokenizer& tokenizer, const std::string& text) {
  std::vector<Token> tokens;
  Counts counts;
  const Action encode = [&] {
    tokens.clear();
    tokenizer.encode(text, tokens);
    benchmark::DoNotOptimize(tokens.data());
  };
  compare(state, encode, [&] { count_words(text, counts); });
  state.counters["mb_per_s"] = static_cast<double>(text.size()) / state.counters["op_us"];
}

void run_all(const std::filesystem::path& folder, std::span<char*> texts) {
  const std::shared_ptr<const Tokenizer> tokenizer = load_byte_pair_tokenizer(folder);
  for (const std::filesystem::path path : texts) {
    benchmark::RegisterBenchmark(
        fmt::format("encode/{}/gpt2", path.filename().string()).c_str(),
        [tokenizer, text = read_file(path)](benchmark::State& state) { run_encode(state, *tokenizer, text); })
        ->UseManualTime()
        ->Unit(benchmark::kMillisecond)
        ->MinTime(2.0);
  }
  benchmark::RunSpecifiedBenchmarks();
}

}  // namespace
}  // namespace bridle

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (argc < 3) {
    std::fputs("usage: tokenizer_bench GPT2_FOLDER TEXT...\n", stderr);
    return 2;
  }
  try {
    bridle::run_all(argv[1], std::span(argv, static_cast<size_t>(argc)).subspan(2));
  } catch (const bridle::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
