// Another program, run to its end without a shell. It and whatever it starts in its process group are gone when the
// call returns or throws; the program itself also ends when this process is killed.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace bridle {

struct ProgramResult {
  int exit_code = 0;     // 128 + signal where a signal ended it
  bool stopped = false;  // because `keep_going` said so
  std::string output;    // the last megabyte
  std::string errors;    // likewise
};

// Where a name without slashes stands on PATH; nothing if it does not.
std::optional<std::filesystem::path> find_program(const std::string& name);

// Runs command[0], found on PATH, with the other words as its arguments, in the folder, with our environment and
// nothing on its standard input. `keep_going` is asked about five times a second; false ends the program (SIGTERM,
// a second later SIGKILL). Any exit code is a result; InputError if the program cannot be started at all.
ProgramResult run_program(const std::vector<std::string>& command, const std::filesystem::path& folder,
                          const std::function<bool()>& keep_going = {});

}  // namespace bridle
