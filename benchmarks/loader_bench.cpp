// How many tokens and images a second the loader hands out, beside a plain copy of the same bytes in the same run, and
// what memory it takes: anonymous memory (what the kernel cannot drop) must not grow with the size of the shards.
//   loader_bench --benchmark_format=json
// Shards are written to the folder for temporary files: 40 MB, and 2 GB.
// Counters: items_per_second (tokens or images), times_needed (over what training at 100,000 tokens a second takes),
// ratio (loader's time over the copy's), anonymous_MB.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <chrono>
#include <cstring>
#include <fstream>

#include "bridle/loader.h"
#include "data/cifar.h"
#include "data/image_source.h"
#include "data/token_source.h"
#include "data/token_writer.h"

namespace bridle {
namespace {

using Clock = std::chrono::steady_clock;
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

// Batches from a loader, in turn with a copy of as many bytes.
void run(benchmark::State& state, const std::shared_ptr<const Source>& source, const LoaderOptions& options) {
  Loader loader(source, options);
  const Batch first = loader.next();
  const auto bytes = static_cast<size_t>(first.inputs.nbytes() + first.targets.nbytes());
  std::vector<char> from(bytes, 'x');
  std::vector<char> to(bytes);
  double taken = 0.0;
  double copied = 0.0;
  for (auto _ : state) {
    const auto begin = Clock::now();
    for (int i = 0; i < 64; ++i) benchmark::DoNotOptimize(loader.next());
    const auto middle = Clock::now();
    for (int i = 0; i < 64; ++i) {
      std::memcpy(to.data(), from.data(), bytes);
      benchmark::DoNotOptimize(to.data());
      benchmark::ClobberMemory();
    }
    taken += std::chrono::duration<double>(middle - begin).count();
    copied += std::chrono::duration<double>(Clock::now() - middle).count();
    state.SetIterationTime(std::chrono::duration<double>(middle - begin).count());
  }
  const double items =
      static_cast<double>(state.iterations()) * 64.0 * static_cast<double>(first.targets.numel());
  state.counters["items_per_second"] = items / taken;
  state.counters["times_needed"] = items / taken / kTokensTrained;
  state.counters["ratio"] = taken / copied;
  state.counters["anonymous_MB"] = anonymous_megabytes();
}

void tokens(benchmark::State& state, int64_t count, Order order, int64_t prefetch) {
  const Folder folder;
  const auto files =
      std::make_shared<TokenFiles>(write_tokens(folder.path(), count), TokenFormat::shard, 65536);
  run(state, std::make_shared<TokenSource>(files, 0, files->size(), 256),
      {.batch_size = 64, .order = order, .prefetch = prefetch});
}

void images(benchmark::State& state, int64_t prefetch) {
  const Folder folder;
  const DataFile file{folder.path() / "images", 50000};
  write_file(file.path, std::string(static_cast<size_t>(file.count) * kCifarRecord, '\x05'));
  const auto files = std::make_shared<ImageFiles>(std::vector{file});
  run(state, std::make_shared<ImageSource>(files, ImageSourceOptions{.begin = 0, .end = file.count}),
      {.batch_size = 512, .order = Order::shuffled, .prefetch = prefetch});
}

void add() {
  const auto name_of = [](Order order) {
    return order == Order::random ? "random" : order == Order::shuffled ? "shuffled" : "sequential";
  };
  for (const int64_t count : {int64_t{20'000'000}, int64_t{1'000'000'000}}) {
    for (const Order order : {Order::random, Order::shuffled, Order::sequential}) {
      for (const int64_t prefetch : {0, 4}) {
        const std::string name =
            fmt::format("tokens/{}MB/{}/prefetch_{}", count / 500'000, name_of(order), prefetch);
        benchmark::RegisterBenchmark(name.c_str(), [=](benchmark::State& state) {
          tokens(state, count, order, prefetch);
        })->UseManualTime();
      }
    }
  }
  for (const int64_t prefetch : {0, 4})
    benchmark::RegisterBenchmark(fmt::format("images/prefetch_{}", prefetch).c_str(),
                                 [=](benchmark::State& state) { images(state, prefetch); })
        ->UseManualTime();
}

}  // namespace
}  // namespace bridle

int main(int argc, char** argv) {
  bridle::add();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
