// report_data again and again, for a page that follows runs: readers are kept between calls.
#pragma once

#include <map>

#include "bridle/report.h"
#include "report/run_metrics.h"

namespace bridle {

using MetricsReaders = std::map<std::filesystem::path, MetricsReader>;

std::string report_data(const std::vector<std::filesystem::path>& what, const ReportOptions& options,
                        MetricsReaders& readers);

}  // namespace bridle
