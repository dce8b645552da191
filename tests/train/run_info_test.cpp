#include <nlohmann/json.hpp>

#include "base/files.h"
#include "bridle/run.h"
#include "file_support.h"

namespace bridle {
namespace {

TEST(RunInfo, SaysHowARunWasMade) {
  const test::TemporaryFolder folder;
  write_run_info(
      folder,
      {.command = "bridle train x.toml", .version = "1", .commit = "abc", .status = "finished", .seed = 5});
  const auto facts = nlohmann::json::parse(read_file(folder / "run.json"));
  EXPECT_EQ(facts["command"], "bridle train x.toml");
  EXPECT_EQ(facts["seed"], 5);
  EXPECT_GE(facts["threads"], 1);
  EXPECT_FALSE(facts["processor"].get<std::string>().empty());
}

}  // namespace
}  // namespace bridle
