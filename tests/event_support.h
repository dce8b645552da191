// Event files as a reader in Python finds them, which shares no code with ours and checks every checksum.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "base/subprocess.h"

namespace bridle::test {

inline std::vector<nlohmann::json> read_events(const std::filesystem::path& folder) {
  const ProgramResult result =
      run_program({"/usr/bin/python3", BRIDLE_EVENTS_READER, folder.string()}, folder);
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  std::vector<nlohmann::json> events;
  std::istringstream lines(result.output);
  for (std::string line; std::getline(lines, line);) events.push_back(nlohmann::json::parse(line));
  return events;
}

}  // namespace bridle::test
