#include "report/sweep_report.h"

#include "base/files.h"
#include "bridle/error.h"
#include "file_support.h"

namespace bridle {
namespace {

using test::TemporaryFolder;
using Json = nlohmann::ordered_json;

const char* const kTable =
    "key,group,status,model.hidden_act,optimizer.lr,loss,log10_bound,error\n"
    "a-1,a,done,gelu,0.5,1.5,2,\n"
    "b-1,b,failed,relu,1,,,\"no, it is not\"\n";

TEST(SweepReport, HasColumnsWithTheirKindAndRows) {
  const TemporaryFolder folder;
  write_file(folder / "sweep.csv", kTable);
  const Json report = sweep_report(folder / "sweep.csv");
  std::string names;
  for (const Json& column : report["columns"])
    names += column["name"].get<std::string>() + (column["number"] ? "# " : " ");
  EXPECT_EQ(names, "key group status loss# log10_bound# model.hidden_act optimizer.lr# error ");
  EXPECT_TRUE(report["columns"][5]["setting"]);
  EXPECT_EQ(report["rows"][0].dump(), R"(["a-1","a","done",1.5,2.0,"gelu",0.5,null])");
  EXPECT_EQ(report["rows"][1].dump(), R"(["b-1","b","failed",null,null,"relu",1.0,"no, it is not"])");
}

TEST(SweepReport, OfASweepFileIsThatOfItsResults) {
  const TemporaryFolder folder;
  write_file(folder / "recipe.toml", "[training]\nsteps = 2\n");
  write_file(folder / "sweep.toml", "recipe = \"recipe.toml\"\n[grid]\n\"training.seed\" = [0, 1]\n");
  EXPECT_ERROR(sweep_report(folder / "sweep.toml"), InputError, "has no results yet");
  write_file(folder / "sweep.csv", kTable);
  EXPECT_EQ(sweep_report(folder / "sweep.toml")["rows"].size(), 2U);
}

TEST(SweepReport, RefusesWhatIsNoTable) {
  const TemporaryFolder folder;
  write_file(folder / "sweep.csv", "a,b\n1,2\n");
  EXPECT_ERROR(sweep_report(folder / "sweep.csv"), InputError, "is no sweep's table");
}

}  // namespace
}  // namespace bridle
