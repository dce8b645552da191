#include "base/subprocess.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <utility>

#include "bridle/error.h"

namespace bridle {
namespace {

using Clock = std::chrono::steady_clock;
constexpr size_t kTail = size_t{1} << 20;
constexpr std::chrono::milliseconds kPoll{200};
constexpr std::chrono::milliseconds kGrace{1000};

class Pipe {
 public:
  Pipe() {
    if (::pipe2(ends_.data(), O_CLOEXEC) != 0)
      throw InputError("run", fmt::format("no pipe: {}", std::strerror(errno)));
    ::fcntl(ends_[0], F_SETFL, O_NONBLOCK);
  }
  ~Pipe() { close_output(), close_input(); }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;

  int output() const { return ends_[0]; }
  int input() const { return ends_[1]; }
  void close_output() { close(ends_[0]); }
  void close_input() { close(ends_[1]); }

 private:
  static void close(int& end) {
    if (end >= 0) ::close(std::exchange(end, -1));
  }
  std::array<int, 2> ends_{-1, -1};
};

// One read of what is there. False: nothing more for now, or ever; then the pipe is closed.
bool take(Pipe& pipe, std::string& text) {
  if (pipe.output() < 0) return false;
  std::array<char, 65536> buffer;  // NOLINT: read fills it
  const ssize_t count = ::read(pipe.output(), buffer.data(), buffer.size());
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  if (count <= 0) {
    pipe.close_output();
    return false;
  }
  text.append(buffer.data(), static_cast<size_t>(count));
  if (text.size() > kTail) text.erase(0, text.size() - kTail);
  return true;
}

// All that the new process needs, made before it exists.
struct Start {
  const char* program;
  const char* folder;
  char* const* arguments;
  pid_t parent;
  int output, errors, failure;
};

struct StartFailure {
  bool folder;  // else the program itself
  int error;
};

[[noreturn]] void give_up(const Start& start, bool folder) {
  const StartFailure failure{folder, errno};
  [[maybe_unused]] const ssize_t written = ::write(start.failure, &failure, sizeof failure);
  ::_exit(127);
}

// Between fork and exec, in the copy of a process that may have many threads: only async-signal-safe calls.
[[noreturn]] void become(const Start& start) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // sent when the thread that waits for the program ends
  if (::getppid() != start.parent) ::_exit(127);
  for (int signal = 1; signal < NSIG; ++signal) ::signal(signal, SIG_DFL);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::dup2(::open("/dev/null", O_RDONLY | O_CLOEXEC), STDIN_FILENO);
  ::dup2(start.output, STDOUT_FILENO);
  ::dup2(start.errors, STDERR_FILENO);
  if (::chdir(start.folder) != 0) give_up(start, true);
  ::execv(start.program, start.arguments);
  give_up(start, false);
}

class Child {
 public:
  Child(const std::vector<std::string>& command, const std::filesystem::path& folder);
  ~Child() { reap(); }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  bool exited();                     // and is not yet reaped, so that its number is still its own
  void read(ProgramResult& result);  // waits for more, not longer than until the next poll
  void read_rest(ProgramResult& result);
  void signal(int number) { ::kill(-pid_, number); }
  int exit_code() const { return exit_code_; }

 private:
  void reap();

  Pipe output_, errors_;
  pid_t pid_ = -1;
  int exit_code_ = -1;  // stays so where this process has asked the system to reap its children unseen
};

Child::Child(const std::vector<std::string>& command, const std::filesystem::path& folder) {
  const auto program = find_program(command.at(0));
  if (!program)
    throw InputError("run",
                     fmt::format("{} is not on PATH; install it, or add its folder to PATH", command[0]));
  std::vector<char*> arguments;
  for (const std::string& word : command)
    arguments.push_back(const_cast<char*>(word.c_str()));  // NOLINT: execv
  arguments.push_back(nullptr);
  Pipe failure;
  ::fcntl(failure.output(), F_SETFL, 0);  // this one is waited for
  const Start start{program->c_str(), folder.c_str(),  arguments.data(), ::getpid(),
                    output_.input(),  errors_.input(), failure.input()};
  pid_ = ::_Fork();  // fork would run the handlers with which BLAS libraries stop their threads
  if (pid_ == 0) become(start);
  if (pid_ < 0) throw InputError("run", fmt::format("{}: {}", command[0], std::strerror(errno)));
  for (Pipe* pipe : {&output_, &errors_, &failure}) pipe->close_input();

  StartFailure why{};
  ssize_t count = -1;
  do count = ::read(failure.output(), &why, sizeof why);
  while (count < 0 && errno == EINTR);
  if (count <= 0) return;  // exec closed it
  reap();
  throw InputError("run", fmt::format("{}: {}; check that it is there and may be {}",
                                      why.folder ? folder.string() : program->string(),
                                      std::strerror(why.error), why.folder ? "entered" : "run"));
}

bool Child::exited() {
  siginfo_t info{};
  if (::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) != 0)
    return errno != EINTR;
  if (info.si_pid == 0) return false;
  exit_code_ = info.si_code == CLD_EXITED ? info.si_status : 128 + info.si_status;
  return true;
}

void Child::read(ProgramResult& result) {
  std::array<pollfd, 2> pipes{pollfd{output_.output(), POLLIN, 0}, pollfd{errors_.output(), POLLIN, 0}};
  const bool silent = output_.output() < 0 && errors_.output() < 0;  // most likely about to exit
  ::poll(pipes.data(), pipes.size(), silent ? 10 : static_cast<int>(kPoll.count()));
  take(output_, result.output);
  take(errors_, result.errors);
}

// A pipe holds 64 kB, which a few reads empty; what the program left behind may write on, but not keep us here.
void Child::read_rest(ProgramResult& result) {
  for (int i = 0; i < 16 && take(output_, result.output); ++i) continue;
  for (int i = 0; i < 16 && take(errors_, result.errors); ++i) continue;
}

void Child::reap() {
  if (pid_ < 0) return;
  signal(SIGKILL);  // also what the program left behind in its group
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) continue;
  pid_ = -1;
}

}  // namespace

std::optional<std::filesystem::path> find_program(const std::string& name) {
  namespace fs = std::filesystem;
  if (name.find('/') != std::string::npos) return fs::absolute(name);
  const char* path = std::getenv("PATH");
  std::istringstream folders(path != nullptr ? path : "/usr/local/bin:/usr/bin:/bin");
  for (std::string folder; std::getline(folders, folder, ':');) {
    if (folder.empty()) continue;
    const fs::path candidate = fs::absolute(folder) / name;
    std::error_code ignored;
    if (fs::is_regular_file(candidate, ignored) && ::access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return std::nullopt;
}

ProgramResult run_program(const std::vector<std::string>& command, const std::filesystem::path& folder,
                          const std::function<bool()>& keep_going) {
  ProgramResult result;
  Child child(command, folder);
  Clock::time_point next = Clock::now() + kPoll;
  Clock::time_point last = Clock::time_point::max();
  while (!child.exited()) {
    child.read(result);
    const Clock::time_point now = Clock::now();
    if (now >= last) child.signal(SIGKILL);
    if (result.stopped || !keep_going || now < next) continue;
    next = now + kPoll;
    if (keep_going()) continue;
    result.stopped = true;
    last = now + kGrace;
    child.signal(SIGTERM);
  }
  child.read_rest(result);
  result.exit_code = child.exit_code();
  return result;
}

}  // namespace bridle
