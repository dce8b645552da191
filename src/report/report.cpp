#include "bridle/report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/files.h"
#include "bridle/error.h"
#include "report/report_data.h"
#include "report/run_names.h"
#include "report/run_report.h"
#include "report/sweep_report.h"

namespace bridle {
namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

std::string title_of(const std::vector<std::string>& names) {
  if (names.size() > 3) return fmt::format("{} and {} more", names[0], names.size() - 1);
  return fmt::format("{}", fmt::join(names, ", "));
}

// Only texts can hold "<".
std::string script_safe(const std::string& json) {
  std::string safe;
  safe.reserve(json.size());
  for (const char c : json)
    if (c == '<')
      safe += "\\u003c";
    else
      safe += c;
  return safe;
}

}  // namespace

std::string report_data(const std::vector<fs::path>& what, const ReportOptions& options) {
  MetricsReaders readers;
  return report_data(what, options, readers);
}

std::string report_data(const std::vector<fs::path>& what, const ReportOptions& options,
                        MetricsReaders& readers) {
  Json runs = Json::array(), sweeps = Json::array();
  const std::vector<std::string> names = run_names(what);
  for (size_t i = 0; i < what.size(); ++i) {
    if (!fs::exists(what[i]))
      throw InputError(
          "report",
          fmt::format("{} does not exist; name a run's folder, SWEEP.toml or SWEEP.csv", what[i].string()));
    const bool folder = fs::is_directory(what[i]);
    Json entry{{"name", names[i]}};
    entry.update(folder ? run_report(what[i], readers[what[i]]) : sweep_report(what[i]));
    (folder ? runs : sweeps).push_back(std::move(entry));
  }
  const Json all{{"schema", 1},
                 {"version", BRIDLE_VERSION},
                 {"title", options.title.empty() ? title_of(names) : options.title},
                 {"live", options.live},
                 {"runs", std::move(runs)},
                 {"sweeps", std::move(sweeps)}};
  return script_safe(all.dump(-1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace));
}

std::string report_template(const fs::path& program) {
  const fs::path folder = fs::weakly_canonical(program).parent_path();
  const fs::path places[] = {folder / "share/bridle/report.html", folder / "../share/bridle/report.html"};
  for (const fs::path& place : places)
    if (fs::exists(place)) return read_file(place);
  throw InputError("report",
                   fmt::format("the page is not built: {} must exist; install npm and Node.js, configure "
                               "again with cmake, and build (target report_page)",
                               places[0].string()));
}

std::string report_page(const std::string& page, const std::string& data) {
  static const std::string place = R"(id="bridle-data">null</script>)";
  const size_t at = page.find(place);
  if (at == std::string::npos)
    throw InputError("report", "the page has no place for data; build it again (target report_page)");
  const size_t value = at + place.find("null");
  return page.substr(0, value) + data + page.substr(value + 4);
}

}  // namespace bridle
