// A page for runs and sweeps: their folders and files as one JSON text, and that text inside one HTML file that needs no network.
//
//   const std::string data = report_data({"runs/a", "runs/b", "sweep.csv"});
//   write_report("report/index.html", report_template(program), data);
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace bridle {

struct ReportOptions {
  std::string title = {};  // empty: the names of what it shows
  bool live = false;       // the page asks for newer data: bridle serve
};

// Runs (folders) and sweeps (SWEEP.toml, or its CSV file) as the JSON text that docs/how-to/report.md describes. ASCII alone, and no "<":
// nothing in it can end the script element that it is put in. Throws InputError, naming what is neither.
std::string report_data(const std::vector<std::filesystem::path>& what, const ReportOptions& options = {});

// The built page without data, from beside the program in a build's folder or from where it is installed. Throws InputError, saying
// how to build it, where it is in neither.
std::string report_template(const std::filesystem::path& program);

// The page with the data inside. Throws InputError for a page that has no place for it.
std::string report_page(const std::string& page, const std::string& data);

}  // namespace bridle
