#include "io/event_file.h"

#include <cmath>
#include <fstream>

#include "event_support.h"
#include "file_support.h"

namespace bridle {
namespace {

using nlohmann::json;
using test::TemporaryFolder;

TEST(EventFile, IsReadByAReaderThatSharesNoCode) {
  const TemporaryFolder folder;
  {
    EventFile file(folder);
    file.scalars(3, {{"loss", 2.5}, {"norms/größe", -0.125}});
    file.text(4, "sample", "a <b> line\nand another");
    file.restart(5);
    file.sync();
  }
  const std::vector<json> events = test::read_events(folder);
  ASSERT_EQ(events.size(), 4U);
  EXPECT_EQ(events[0]["version"], "brain.Event:2");
  EXPECT_EQ(events[1]["step"], 3);
  EXPECT_EQ(events[1]["values"],
            json::parse(R"([{"tag":"loss","scalar":2.5},{"tag":"norms/größe","scalar":-0.125}])"));
  EXPECT_EQ(events[2]["values"][0],
            json::parse(R"({"tag":"sample","text":"a <b> line\nand another","plugin":"text"})"));
  EXPECT_EQ(events[3]["session"], 1);
  EXPECT_EQ(events[3]["step"], 5);
  EXPECT_GT(events[3]["time"].get<double>(), 1.6e9);
}

TEST(EventFile, HoldsHistogramsWhoseBucketsCountEveryValue) {
  const TemporaryFolder folder;
  const std::vector<double> values = {0.0, 0.1, 0.5, 0.5, 1.0, 3.0};
  EventFile file(folder);
  file.histogram(1, "many", values);
  file.histogram(1, "same", {2.0, 2.0});
  file.histogram(1, "none", {});
  const std::vector<json> events = test::read_events(folder);
  ASSERT_EQ(events.size(), 3U);
  const json many = events[1]["values"][0]["histogram"], same = events[2]["values"][0]["histogram"];
  EXPECT_EQ(many["min"], 0.0);
  EXPECT_EQ(many["max"], 3.0);
  EXPECT_EQ(many["num"], 6.0);
  EXPECT_NEAR(many["sum"].get<double>(), 5.1, 1e-12);
  EXPECT_NEAR(many["sum_squares"].get<double>(), 10.51, 1e-12);
  double before = -1.0;
  for (size_t i = 0; i < many["limits"].size(); ++i) {
    const double limit = many["limits"][i];
    double within = 0.0;
    for (const double value : values) within += value > before && value <= limit * (1.0 + 1e-12) ? 1.0 : 0.0;
    EXPECT_EQ(many["buckets"][i], within) << limit;
    before = limit * (1.0 + 1e-12);
  }
  EXPECT_EQ(same["limits"].dump(), "[2.0]");
  EXPECT_EQ(same["buckets"].dump(), "[2.0]");
}

TEST(EventFile, ThatIsDamagedIsFoundByItsChecksums) {
  const TemporaryFolder folder;
  std::filesystem::path path;
  {
    EventFile file(folder);
    file.scalars(1, {{"loss", 1.0}});
    path = file.path();
  }
  std::fstream bytes(path, std::ios::in | std::ios::out | std::ios::binary);
  bytes.seekp(-8, std::ios::end);
  bytes.put('\x7f');
  bytes.close();
  const ProgramResult result =
      run_program({"/usr/bin/python3", BRIDLE_EVENTS_READER, path.parent_path()}, folder);
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_NE(result.errors.find("checksum"), std::string::npos);
}

}  // namespace
}  // namespace bridle
