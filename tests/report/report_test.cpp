#include "bridle/report.h"

#include <nlohmann/json.hpp>

#include "base/files.h"
#include "bridle/error.h"
#include "file_support.h"

namespace bridle {
namespace {

using test::TemporaryFolder;
using Json = nlohmann::json;
namespace fs = std::filesystem;

fs::path run_in(const fs::path& folder) {
  fs::create_directories(folder);
  write_file(folder / "metrics.jsonl", "{\"step\":1,\"loss\":2}\n");
  return folder;
}

TEST(Report, NamesRunsAsShortlyAsTellsThemApart) {
  const TemporaryFolder folder;
  const Json data =
      Json::parse(report_data({run_in(folder / "x/a"), run_in(folder / "y/a"), run_in(folder / "b") / ""}));
  EXPECT_EQ(data["runs"][0]["name"], "x/a");
  EXPECT_EQ(data["runs"][1]["name"], "y/a");
  EXPECT_EQ(data["runs"][2]["name"], "b");
  EXPECT_EQ(data["title"], "x/a, y/a, b");
  EXPECT_EQ(data["schema"], 1);
}

TEST(Report, HoldsHostileTextsAsTexts) {
  const TemporaryFolder folder;
  const fs::path run = run_in(folder / "<script>alert(1)<");
  write_file(run / "samples.jsonl", "{\"text\":\"</script><img src=x onerror=alert(2)>\xe2\x80\xa8\"}\n");
  write_file(run / "config.toml", "[data]\nname = \"\xc3\xa9 <!-- ../../etc\"\n");
  const std::string data = report_data({run});
  EXPECT_EQ(data.find('<'), std::string::npos);
  for (const char c : data) EXPECT_GE(c, ' ');  // ASCII alone
  const Json parsed = Json::parse(data);
  EXPECT_EQ(parsed["runs"][0]["name"], "<script>alert(1)<");
  EXPECT_EQ(parsed["runs"][0]["samples"][0]["text"], "</script><img src=x onerror=alert(2)>\xe2\x80\xa8");
}

TEST(Report, TakesNamesThatAreNotText) {
  const TemporaryFolder folder;
  const Json parsed = Json::parse(report_data({run_in(folder / "\xff\xfe")}));
  EXPECT_EQ(parsed["runs"].size(), 1U);
}

TEST(Report, RefusesWhatDoesNotExist) {
  EXPECT_ERROR(report_data({"no/such/run"}), InputError, "no/such/run does not exist");
}

TEST(Report, PutsDataIntoThePage) {
  const std::string page = R"(<script type="application/json" id="bridle-data">null</script><p>null</p>)";
  EXPECT_EQ(report_page(page, "{}"),
            R"(<script type="application/json" id="bridle-data">{}</script><p>null</p>)");
  EXPECT_ERROR(report_page("<p>", "{}"), InputError, "no place for data");
}

TEST(Report, FindsThePageBesideTheProgramOrWhereItIsInstalled) {
  const TemporaryFolder folder;
  EXPECT_ERROR(report_template(folder / "bin/bridle"), InputError, "the page is not built");
  fs::create_directories(folder / "share/bridle");
  fs::create_directories(folder / "bin");
  write_file(folder / "share/bridle/report.html", "page");
  EXPECT_EQ(report_template(folder / "bin/bridle"), "page");
  EXPECT_EQ(report_template(folder / "bridle"), "page");
}

}  // namespace
}  // namespace bridle
