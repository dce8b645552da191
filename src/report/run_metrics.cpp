#include "report/run_metrics.h"

#include <cmath>
#include <limits>
#include <string_view>

#include "base/files.h"

namespace bridle {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMostPoints = 2000;
constexpr size_t kMostWeightPoints = 256;  // there are dozens of weights
constexpr size_t kMostKeys = 200;          // of a line that Bridle wrote there are about twenty

// null is how a number that is not finite is written.
bool is_measurement(const nlohmann::json& value) { return value.is_number() || value.is_null(); }

double number_of(const nlohmann::json& value) {
  return value.is_number() ? value.get<double>() : std::numeric_limits<double>::quiet_NaN();
}

void add_weights(RunMetrics& metrics, const std::string& key, int64_t step, const nlohmann::json& values) {
  RunMetrics::ByName& all = metrics.of_weights[key];
  for (const auto& [name, value] : values.items())
    if (is_measurement(value))
      all.try_emplace(name, kMostWeightPoints).first->second.add(step, number_of(value));
}

void add_line(RunMetrics& metrics, const nlohmann::json& line) {
  const auto step = line["step"].get<int64_t>();
  for (const auto& [key, value] : line.items()) {
    if (value.is_object()) add_weights(metrics, key, step, value);
    if (!is_measurement(value)) continue;
    metrics.last[key] = value;
    if (key != "step") metrics.series.try_emplace(key, kMostPoints).first->second.add(step, number_of(value));
  }
}

bool is_record(const nlohmann::json& line) {
  return line.is_object() && line.size() <= kMostKeys && line.contains("step") &&
         line["step"].is_number_integer();
}

double seven_digits(double value) {
  if (!std::isfinite(value) || value == 0.0) return value;
  const double scale = std::pow(10.0, 6.0 - std::floor(std::log10(std::abs(value))));
  return std::isfinite(scale) && scale > 0.0 ? std::round(value * scale) / scale : value;
}

}  // namespace

const RunMetrics& MetricsReader::read(const std::filesystem::path& path) {
  if (!std::filesystem::exists(path)) return metrics_ = {};
  const MappedFile file(path);
  const std::string_view text = file.text();
  const bool same = text.size() >= bytes_ && text.substr(0, bytes_).ends_with(last_line_);
  if (!same) *this = {};
  std::string_view rest = text.substr(bytes_);
  for (size_t end; (end = rest.find('\n')) != std::string_view::npos; rest.remove_prefix(end + 1)) {
    const auto line = nlohmann::json::parse(rest.substr(0, end), nullptr, /*allow_exceptions=*/false);
    if (is_record(line)) {
      add_line(metrics_, line);
      ++metrics_.lines;
    } else {
      ++metrics_.damaged;
    }
    bytes_ += end + 1;
    last_line_ = rest.substr(0, end + 1);
  }
  return metrics_;
}

RunMetrics read_metrics(const std::filesystem::path& path) { return MetricsReader().read(path); }

nlohmann::ordered_json json_of(const ThinnedSeries& series, bool bound) {
  const bool thinned = series.lines_per_point() > 1;
  Json json{{"step", Json::array()}, {"value", Json::array()}};
  for (const SeriesPoint& point : series.points()) {
    json["step"].push_back(point.step);
    json["value"].push_back(bound ? point.high : seven_digits(point.mean));  // NaN is written as null
    if (!thinned || bound) continue;
    json["low"].push_back(seven_digits(point.low));
    json["high"].push_back(seven_digits(point.high));
  }
  if (thinned) json["lines_per_point"] = series.lines_per_point();
  return json;
}

bool is_bound(const std::string& key) {
  const auto has = [&key](const char* part) { return key.find(part) != std::string::npos; };
  return has("lipschitz") || has("bound") || key == "activation";
}

}  // namespace bridle
