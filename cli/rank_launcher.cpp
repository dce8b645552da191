// See rank_launcher.h. The processes are given an open listener, so that no port can be taken by another program in between.
#include "rank_launcher.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>

#include "bridle/error.h"
#include "dist/sockets.h"
#include "stop_signals.h"

extern char** environ;

namespace bridle {
namespace {

using Clock = std::chrono::steady_clock;
constexpr const char* kRendezvous = "BRIDLE_RENDEZVOUS";
constexpr int kLost = 4;

// This process's, but for what says which rank a process is.
std::vector<std::string> environment_of(int64_t rank, int64_t ranks, const std::string& rendezvous) {
  constexpr std::string_view others[] = {"RANK=", "WORLD_SIZE=", "LOCAL_RANK=", "BRIDLE_RENDEZVOUS="};
  std::vector<std::string> environment;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    if (std::none_of(std::begin(others), std::end(others), [&](auto name) { return text.starts_with(name); }))
      environment.emplace_back(text);
  }
  environment.push_back(fmt::format("RANK={}", rank));
  environment.push_back(fmt::format("WORLD_SIZE={}", ranks));
  environment.push_back(fmt::format("LOCAL_RANK={}", rank));
  environment.push_back(fmt::format("{}={}", kRendezvous, rendezvous));
  if (std::getenv("OMP_NUM_THREADS") == nullptr) {
    const auto cores = static_cast<int64_t>(std::thread::hardware_concurrency());
    environment.push_back(fmt::format("OMP_NUM_THREADS={}", std::max<int64_t>(1, cores / ranks)));
  }
  return environment;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (std::string& text : texts) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

class RankProcesses {
 public:
  RankProcesses(const RankLaunch& launch, bool again) : launch_(launch) {
    const Descriptor listener = listen_at({"127.0.0.1", 0});
    const std::string rendezvous = fmt::format("descriptor:{}:{}", listener.number(), port_of(listener));
    for (int64_t rank = 0; rank < launch.ranks; ++rank) {
      if (rank == 0) fcntl(listener.number(), F_SETFD, 0);  // rank 0 inherits it
      running_.push_back(start(rank, rendezvous, again));
      if (rank == 0) fcntl(listener.number(), F_SETFD, FD_CLOEXEC);
    }
  }
  ~RankProcesses() { end_all(SIGKILL); }
  RankProcesses(const RankProcesses&) = delete;
  RankProcesses& operator=(const RankProcesses&) = delete;

  int wait() {
    bool told = false;
    while (true) {
      for (size_t rank = 0; rank < running_.size(); ++rank) reap(rank);
      if (std::all_of(running_.begin(), running_.end(), [](pid_t process) { return process == 0; })) break;
      if (stop_requested && !std::exchange(told, true)) end_all(SIGTERM);
      if (last_ && Clock::now() > *last_) end_all(SIGKILL);
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return exit_code_;
  }

 private:
  pid_t start(int64_t rank, const std::string& rendezvous, bool again) const {
    std::vector<std::string> arguments = launch_.arguments(again);
    arguments.insert(arguments.begin(), "bridle");
    std::vector<std::string> environment = environment_of(rank, launch_.ranks, rendezvous);
    pid_t child = 0;
    const int error = posix_spawn(&child, "/proc/self/exe", nullptr, nullptr, pointers(arguments).data(),
                                  pointers(environment).data());
    if (error != 0)
      throw InputError("ranks", fmt::format("rank {} could not be started: {}", rank, std::strerror(error)));
    return child;
  }

  void reap(size_t rank) {
    int state = 0;
    if (running_[rank] == 0 || waitpid(running_[rank], &state, WNOHANG) <= 0) return;
    running_[rank] = 0;
    const int code = WIFEXITED(state) ? WEXITSTATUS(state) : kLost;
    if (WIFSIGNALED(state) && !last_)
      fmt::print(stderr, "bridle: [ranks] rank {} of {} was ended by signal {} ({})\n", rank, launch_.ranks,
                 WTERMSIG(state), strsignal(WTERMSIG(state)));
    // One's own error says more than that others have learned of it.
    if (code != 0 && (exit_code_ == 0 || (exit_code_ == kLost && code < kLost))) exit_code_ = code;
    if (code == 0 || code > 128 || last_) return;
    // Those that have not heard of it by themselves then: stopped ones, for instance.
    constexpr std::chrono::seconds grace{5};
    last_ = Clock::now() + (code == kLost && WIFEXITED(state) ? grace : launch_.timeout + grace);
  }

  void end_all(int signal) const {
    for (const pid_t process : running_)
      if (process != 0) kill(process, signal);
  }

  const RankLaunch& launch_;
  std::vector<pid_t> running_;  // by rank; 0: ended
  std::optional<Clock::time_point> last_;
  int exit_code_ = 0;
};

}  // namespace

int run_ranks(const RankLaunch& launch) {
  for (int64_t attempt = 0;; ++attempt) {
    const int code = RankProcesses(launch, attempt > 0).wait();
    if (code != kLost || attempt == launch.restarts || stop_requested) return code;
    fmt::print(stderr, "bridle: start {} of {}: the run goes on from its last checkpoint\n", attempt + 2,
               launch.restarts + 1);
  }
}

void follow_launcher() {
  const char* rendezvous = std::getenv(kRendezvous);
  if (rendezvous != nullptr && std::string_view(rendezvous).starts_with("descriptor:"))
    prctl(PR_SET_PDEATHSIG, SIGTERM);
}

}  // namespace bridle
