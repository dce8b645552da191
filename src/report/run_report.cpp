#include "report/run_report.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <functional>
#include <sstream>

#include "base/files.h"
#include "base/toml_text.h"
#include "bridle/error.h"
#include "report/run_metrics.h"

namespace bridle {
namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

constexpr uint64_t kLargestFile = uint64_t{1} << 23U;  // of a JSON file or a picture, in bytes
constexpr size_t kMostSamples = 50;

Json parsed(const fs::path& path) {
  Json json = Json::parse(read_file(path, kLargestFile), nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) throw InputError("report", fmt::format("{} is not JSON", path.string()));
  return json;
}

// As TOML has it, but for texts, which have no quotes at the top, and numbers, which are as short as they can be: 0.03 and not
// 0.029999999999999999.
std::string text_of(const toml::node& value, bool inside = false) {
  if (const auto* number = value.as_floating_point()) return fmt::format("{}", number->get());
  if (const auto* word = value.as_string(); word != nullptr && !inside) return word->get();
  std::ostringstream out;
  if (const toml::array* list = value.as_array()) {
    for (const toml::node& entry : *list)
      out << (out.tellp() > 0 ? ", " : "") << text_of(entry, /*inside=*/true);
    return fmt::format("[{}]", out.str());
  }
  value.visit([&out](const auto& node) {
    if constexpr (!toml::is_array<decltype(node)>) out << node;
  });
  return out.str();
}

// Every key of config.toml as "section.key".
Json settings_of(const fs::path& path) {
  Json settings = Json::object();
  const toml::table config = parse_toml_file(path, "report");
  for (const auto& [section, entries] : config) {
    const std::string name(section.str());
    if (const toml::table* table = entries.as_table())
      for (const auto& [key, value] : *table) settings[name + "." + std::string(key.str())] = text_of(value);
    else
      settings[name] = text_of(entries);
  }
  return settings;
}

Json series_of(const RunMetrics& metrics) {
  Json all = Json::object();
  for (const auto& [key, series] : metrics.series) all[key] = json_of(series, is_bound(key));
  return all;
}

Json weights_of(const RunMetrics& metrics) {
  Json all = Json::object();
  for (const auto& [key, weights] : metrics.of_weights)
    for (const auto& [name, series] : weights) all[key][name] = json_of(series, /*bound=*/false);
  return all;
}

Json metrics_of(const RunMetrics& metrics, Json& problems) {
  if (metrics.damaged > 0)
    problems.push_back(fmt::format("metrics.jsonl: {} of its lines are damaged", metrics.damaged));
  Json last = Json::object();
  for (const auto& [key, value] : metrics.last) last[key] = value;
  return {{"lines", metrics.lines},
          {"last", last},
          {"series", series_of(metrics)},
          {"of_weights", weights_of(metrics)}};
}

// The newest of samples.jsonl, the newest first.
Json samples_of(const fs::path& path) {
  Json all = Json::array();
  std::istringstream text(read_file(path, kLargestFile));
  for (std::string line; std::getline(text, line);) {
    Json sample = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (sample.is_object() && sample.contains("text") && sample["text"].is_string())
      all.insert(all.begin(), std::move(sample));
  }
  while (all.size() > kMostSamples) all.erase(all.size() - 1);
  return all;
}

std::string base64(const std::string& bytes) {
  std::string text(4 * ((bytes.size() + 2) / 3) + 1, '\0');
  const int size =
      EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()),
                      reinterpret_cast<const unsigned char*>(bytes.data()), static_cast<int>(bytes.size()));
  text.resize(static_cast<size_t>(size));
  return text;
}

}  // namespace

bool is_run(const fs::path& folder) {
  return fs::exists(folder / "config.toml") || fs::exists(folder / "metrics.jsonl");
}

nlohmann::ordered_json run_report(const fs::path& folder) {
  MetricsReader reader;
  return run_report(folder, reader);
}

nlohmann::ordered_json run_report(const fs::path& folder, MetricsReader& reader) {
  if (!is_run(folder))
    throw InputError("report",
                     fmt::format("{} is no run: it must have config.toml or metrics.jsonl", folder.string()));
  Json problems = Json::array();
  Json run{{"folder", folder.string()}};
  const auto add = [&](const char* key, const char* file, const std::function<Json(const fs::path&)>& read) {
    try {
      if (fs::exists(folder / file)) run[key] = read(folder / file);
    } catch (const InputError& error) {
      problems.push_back(error.what());
    }
  };
  add("info", "run.json", parsed);
  add("settings", "config.toml", settings_of);
  add("metrics", "metrics.jsonl",
      [&](const fs::path& path) { return metrics_of(reader.read(path), problems); });
  add("certificate", "certificate.json", parsed);
  add("predictions", "predictions.json", parsed);
  add("attack", "attack.json", parsed);
  add("attack_picture", "attack.png",
      [](const fs::path& path) { return base64(read_file(path, kLargestFile)); });
  add("samples", "samples.jsonl", samples_of);
  run["problems"] = problems;
  return run;
}

}  // namespace bridle
