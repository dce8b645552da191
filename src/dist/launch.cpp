// See launch.h.
#include "dist/launch.h"

#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <filesystem>

#include "bridle/error.h"

namespace bridle {
namespace {

constexpr int64_t kMostRanks = 1 << 20;

class Variables {
 public:
  explicit Variables(const Environment& environment) : environment_(environment) {}

  std::string text(const char* name) const {
    const char* value = environment_(name);
    return value == nullptr ? "" : value;
  }

  int64_t number(const char* name) const {
    const std::string value = text(name);
    int64_t number = -1;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    if (error != std::errc() || end != value.data() + value.size() || number < 0 || number > kMostRanks)
      throw InputError("ranks", fmt::format("the variable {} must be a number from 0, got '{}'; unset it, or "
                                            "start this process with torchrun, mpirun or srun",
                                            name, value));
    return number;
  }

  bool has(const char* name) const { return !text(name).empty(); }

 private:
  const Environment& environment_;
};

LaunchedRank by_torchrun(const Variables& variables) {
  LaunchedRank rank{.rank = variables.number("RANK"),
                    .size = variables.number("WORLD_SIZE"),
                    .local_rank = variables.has("LOCAL_RANK") ? variables.number("LOCAL_RANK") : 0,
                    .rendezvous = variables.text("BRIDLE_RENDEZVOUS"),
                    .launcher = "torchrun"};
  const std::string host = variables.text("MASTER_ADDR");
  if (rank.rendezvous.empty() && !host.empty())
    rank.rendezvous = fmt::format("tcp:{}:{}", host, variables.number("MASTER_PORT") + 1);
  return rank;
}

LaunchedRank by_mpirun(const Variables& variables) {
  LaunchedRank rank{.rank = variables.number("OMPI_COMM_WORLD_RANK"),
                    .size = variables.number("OMPI_COMM_WORLD_SIZE"),
                    .local_rank = variables.number("OMPI_COMM_WORLD_LOCAL_RANK"),
                    .rendezvous = variables.text("BRIDLE_RENDEZVOUS"),
                    .launcher = "mpirun"};
  // All on one machine: a file that only this job names.
  const std::string job = variables.text("PMIX_NAMESPACE");
  if (rank.rendezvous.empty() && !job.empty() && variables.number("OMPI_COMM_WORLD_LOCAL_SIZE") == rank.size)
    rank.rendezvous =
        fmt::format("file:{}/bridle-{}-{}", std::filesystem::temp_directory_path().string(), getuid(), job);
  return rank;
}

LaunchedRank by_srun(const Variables& variables) {
  LaunchedRank rank{.rank = variables.number("SLURM_PROCID"),
                    .size = variables.number("SLURM_STEP_NUM_TASKS"),
                    .local_rank = variables.number("SLURM_LOCALID"),
                    .rendezvous = variables.text("BRIDLE_RENDEZVOUS"),
                    .launcher = "srun"};
  const std::string host = first_host(variables.text("SLURM_STEP_NODELIST"));
  if (!rank.rendezvous.empty() || host.empty()) return rank;
  // Each step of each job has a port of its own, most likely.
  constexpr int64_t first_port = 20000, ports = 10000;
  const int64_t number = 16 * variables.number("SLURM_JOB_ID") + variables.number("SLURM_STEP_ID");
  rank.rendezvous = fmt::format("tcp:{}:{}", host, first_port + number % ports);
  return rank;
}

}  // namespace

std::string first_host(const std::string& list) {
  const std::string host = list.substr(0, list.find_first_of("[,"));
  if (host.size() == list.size() || list[host.size()] == ',') return host;
  const size_t first = host.size() + 1;
  const size_t close = list.find(']', first), end = list.find_first_of(",-]", first);
  if (close == std::string::npos) return host;
  return host + list.substr(first, end - first) + list.substr(close + 1, list.find(',', close) - close - 1);
}

std::optional<LaunchedRank> launched_rank(const Environment& environment) {
  const Variables variables(environment);
  std::optional<LaunchedRank> rank;
  if (variables.has("RANK") && variables.has("WORLD_SIZE"))
    rank = by_torchrun(variables);
  else if (variables.has("OMPI_COMM_WORLD_RANK"))
    rank = by_mpirun(variables);
  else if (variables.has("SLURM_PROCID") && variables.has("SLURM_STEP_NUM_TASKS"))
    rank = by_srun(variables);
  if (!rank || rank->size == 1) return std::nullopt;
  if (rank->rank >= rank->size)
    throw InputError("ranks", fmt::format("{} gives rank {} of {} ranks: they count from 0", rank->launcher,
                                          rank->rank, rank->size));
  return rank;
}

}  // namespace bridle
