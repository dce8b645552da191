// How many tokens and images a second the loader hands out, beside a plain copy of the same bytes in the same run, and
// what memory it takes: anonymous memory (what the kernel cannot drop) must not grow with the size of the shards.
//   loader_bench --benchmark_format=json
// Shards are written to the folder for temporary files: 40 MB, and 2 GB.
// Counters: ratio (median of 64 batches / median of 64 copies), items_per_second (tokens or images), times_needed (over
// what training at 100,000 tokens a second takes), anonymous_MB.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <cstring>
#include <fstream>

#include "bridle/loader.h"
#include "compare.h"
#include "data/cifar.h"
#include "data/image_source.h"
#include "data/token_source.h"
#include "data/token_writer.h"

namespace bridle {
namespace {

constexpr double kTokensTrained = 1e5;

class Folder {
 public:
  Folder()
      : path_(std::filesystem::temp_directory_path() / fmt::format("bridle_loader_bench_{}", ::getpid())) {
    std::filesystem::create_directories(path_);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

double anonymous_megabytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("RssAnon:")) return std::stod(line.substr(8)) / 1024.0;
  }
  return 0.0;
}

std::vector<DataFile> write_tokens(const std::filesystem::path& folder, int64_t count) {
  TokenWriter writer(folder, "train", 100'000'000);
  std::vector<Token> tokens(1 << 20);
  uint64_t state = 1;
  for (int64_t done = 0; done < count; done += std::ssize(tokens)) {
    for (Token& token : tokens)
      token = static_cast<Token>((state = state * 6364136223846793005ULL + 1442695040888963407ULL) >> 49);
    writer.write(tokens);
  }
  return writer.close();
}

// Sixty-four batches from a loader, in turn with copies of as many bytes.
void run(benchmark::State& state, const std::shared_ptr<const Source>& source, const LoaderOptions& options) {
  constexpr int kBatches = 64;
  Loader loader(source, options);
  const Batch first = loader.next();
  const auto bytes = static_cast<size_t>(first.inputs.nbytes() + first.targets.nbytes());
  const std::vector<char> from(bytes, 'x');
  std::vector<char> to(bytes);
  const auto load = [&] {
    for (int i = 0; i < kBatches; ++i) benchmark::DoNotOptimize(loader.next());
  };
  const auto copy = [&] {
    for (int i = 0; i < kBatches; ++i) {
      std::memcpy(to.data(), from.data(), bytes);
      benchmark::DoNotOptimize(to.data());
      benchmark::ClobberMemory();
    }
  };
  compare(state, load, copy);
  const double items =
      kBatches * static_cast<double>(first.targets.numel()) / (1e-6 * state.counters["op_us"]);
  state.counters["items_per_second"] = items;
  if (first.targets.dim() == 2) state.counters["times_needed"] = items / kTokensTrained;
  state.counters["anonymous_MB"] = anonymous_megabytes();
}

void tokens(benchmark::State& state, int64_t count, Order order) {
  const Folder folder;
  const auto files =
      std::make_shared<TokenFiles>(write_tokens(folder.path(), count), TokenFormat::shard, 65536);
  run(state, std::make_shared<TokenSource>(files, 0, files->size(), 256), {.batch_size = 64, .order = order});
}

void images(benchmark::State& state) {
  const Folder folder;
  const DataFile file{folder.path() / "images", 50000};
  write_file(file.path, std::string(static_cast<size_t>(file.count) * kCifarRecord, '\x05'));
  const auto files = std::make_shared<ImageFiles>(std::vector{file});
  run(state, std::make_shared<ImageSource>(files, ImageSourceOptions{.begin = 0, .end = file.count}),
      {.batch_size = 512, .order = Order::shuffled});
}

void add() {
  constexpr std::pair<Order, const char*> orders[] = {
      {Order::random, "random"}, {Order::shuffled, "shuffled"}, {Order::sequential, "sequential"}};
  for (const int64_t count : {int64_t{20'000'000}, int64_t{1'000'000'000}}) {
    for (const auto& [order, word] : orders) {
      const std::string name = fmt::format("tokens/{}MB/{}", count / 500'000, word);
      benchmark::RegisterBenchmark(name.c_str(), [count, o = order](benchmark::State& state) {
        tokens(state, count, o);
      })->UseManualTime();
    }
  }
  benchmark::RegisterBenchmark("images/154MB/shuffled", images)->UseManualTime();
}

}  // namespace
}  // namespace bridle

int main(int argc, char** argv) {
  bridle::add();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
