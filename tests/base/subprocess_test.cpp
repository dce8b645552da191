#include "base/subprocess.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <thread>

#include "base/files.h"
#include "bridle/error.h"
#include "file_support.h"

namespace bridle {
namespace {

using test::TemporaryFolder;

ProgramResult shell(const std::string& script, const std::function<bool()>& keep_going = {}) {
  return run_program({"sh", "-c", script}, ".", keep_going);
}

void wait_until(const std::function<bool()>& condition) {
  for (int i = 0; i < 1000 && !condition(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  ASSERT_TRUE(condition());
}

bool alive(const std::string& pid) {
  std::ifstream file("/proc/" + pid + "/stat");
  std::string number, name, state;
  return file >> number >> name >> state && state != "Z" && state != "X";
}

std::string first_word(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::string word;
  file >> word;
  return word;
}

TEST(Subprocess, GivesOutputErrorsAndExitCode) {
  const ProgramResult result = shell("echo out; echo err >&2; exit 3");
  EXPECT_EQ(result.output, "out\n");
  EXPECT_EQ(result.errors, "err\n");
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_FALSE(result.stopped);
}

TEST(Subprocess, NamesTheSignalThatEndedIt) { EXPECT_EQ(shell("kill -SEGV $$").exit_code, 128 + SIGSEGV); }

TEST(Subprocess, PassesArgumentsWithoutAShell) {
  const ProgramResult result = run_program({"printf", "%s|", "a b", "$HOME", "", "*"}, ".");
  EXPECT_EQ(result.output, "a b|$HOME||*|");
}

TEST(Subprocess, RunsInTheFolderWithEmptyInput) {
  const TemporaryFolder folder;
  const ProgramResult result = run_program({"sh", "-c", "pwd; cat"}, folder);
  EXPECT_EQ(result.output, std::filesystem::canonical(folder).string() + "\n");
}

TEST(Subprocess, HasSignalsAsTheSystemSetsThem) {
  std::signal(SIGPIPE, SIG_IGN);  // with which `yes` would complain, and not end by the signal
  const ProgramResult result = shell("yes | head -n 1; trap");
  std::signal(SIGPIPE, SIG_DFL);
  EXPECT_EQ(result.output, "y\n");
  EXPECT_EQ(result.errors, "");
}

TEST(Subprocess, KeepsTheEndOfLongOutput) {
  const ProgramResult result = shell("yes | head -c 3000000; echo last");
  EXPECT_EQ(result.output.size(), size_t{1} << 20);
  EXPECT_TRUE(result.output.ends_with("y\nlast\n"));
}

TEST(Subprocess, SaysWhatIsNotThere) {
  const TemporaryFolder folder;
  EXPECT_ERROR(run_program({"no-such-program"}, "."), InputError,
               "[run] no-such-program is not on PATH; install it");
  EXPECT_ERROR(run_program({"true"}, folder / "missing"), InputError, "missing: No such file or directory");
  write_file(folder / "text", "hello");
  EXPECT_ERROR(run_program({(folder / "text").string()}, "."), InputError, "text: Permission denied");
  ::chmod((folder / "text").c_str(), 0700);
  EXPECT_ERROR(run_program({(folder / "text").string()}, "."), InputError, "text: Exec format error");
  EXPECT_FALSE(find_program("no-such-program"));
  EXPECT_TRUE(find_program("sh"));
}

TEST(Subprocess, IsAskedAndStoppedWithAllThatItStarted) {
  const TemporaryFolder folder;
  int asked = 0;
  const ProgramResult result = run_program({"sh", "-c", "sleep 100 & echo $! > pid; wait"}, folder,
                                           [&] { return ++asked < 3 || first_word(folder / "pid").empty(); });
  EXPECT_TRUE(result.stopped);
  EXPECT_EQ(result.exit_code, 128 + SIGTERM);
  const std::string pid = first_word(folder / "pid");
  wait_until([&] { return !alive(pid); });
}

TEST(Subprocess, IsKilledWhereItDoesNotStop) {
  const ProgramResult result = shell("trap '' TERM; while :; do sleep 0.05; done", [] { return false; });
  EXPECT_TRUE(result.stopped);
  EXPECT_EQ(result.exit_code, 128 + SIGKILL);
}

TEST(Subprocess, DoesNotWaitForWhatTheProgramLeftBehind) {
  const TemporaryFolder folder;
  const ProgramResult result = run_program({"sh", "-c", "sleep 100 & echo $! > pid"}, folder);
  EXPECT_EQ(result.exit_code, 0);
  const std::string pid = first_word(folder / "pid");
  wait_until([&] { return !alive(pid); });
}

TEST(Subprocess, EndsWhereTheQuestionThrows) {
  const TemporaryFolder folder;
  const std::vector<std::string> command{"sh", "-c", "echo $$ > pid; exec sleep 100"};
  const auto question = [&]() -> bool {
    if (first_word(folder / "pid").empty()) return true;
    throw InputError("test", "enough");
  };
  EXPECT_ERROR(run_program(command, folder, question), InputError, "enough");
  EXPECT_FALSE(alive(first_word(folder / "pid")));
}

TEST(Subprocess, EndsWithTheProcessThatStartedIt) {
  const TemporaryFolder folder;
  const pid_t parent = ::fork();
  if (parent == 0) {
    run_program({"sh", "-c", "echo $$ > pid; exec sleep 100"}, folder);
    ::_exit(0);
  }
  wait_until([&] { return !first_word(folder / "pid").empty(); });
  const std::string pid = first_word(folder / "pid");
  EXPECT_TRUE(alive(pid));
  ::kill(parent, SIGKILL);
  ::waitpid(parent, nullptr, 0);
  wait_until([&] { return !alive(pid); });
}

}  // namespace
}  // namespace bridle
