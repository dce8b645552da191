// Data sets of vectors: split by the seed, standardised by the training part, and what by is kept.
#include <ATen/ops/tensor.h>
#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/json_text.h"
#include "base/permutation.h"
#include "bridle/error.h"
#include "data/catalog.h"
#include "data/dataset.h"
#include "data/table.h"
#include "data/vector_source.h"

namespace bridle {
namespace {

using Json = nlohmann::ordered_json;
constexpr const char* kStatistics = "statistics.json";
constexpr int64_t kLargestWidth = int64_t{1} << 20;

Table read_table(const VectorImport& options) {
  if (!options.csv.empty()) return read_csv(options);
  if (!options.inputs.empty()) return read_npy_pair(options);
  if (options.regression)
    throw InputError("data import", "--regression must be left out for --images, whose folders are classes");
  return read_image_folder(options);
}

std::string origin_of(const VectorImport& options) {
  const std::filesystem::path& path = !options.csv.empty()      ? options.csv
                                      : !options.inputs.empty() ? options.inputs
                                                                : options.images;
  return std::filesystem::absolute(path).string();
}

std::vector<double> numbers_of(const at::Tensor& values) {
  std::vector<double> all;
  for (int64_t i = 0; i < values.numel(); ++i) all.push_back(values[i].item<double>());
  return all;
}

struct Moments {
  at::Tensor mean, deviation;  // float64; a constant column has deviation 1
};

Moments moments_of(const at::Tensor& rows) {
  const at::Tensor mean = rows.mean(0);
  const at::Tensor deviation = rows.sub(mean).square().mean(0).sqrt();
  const at::Tensor constant = deviation.le(mean.abs().mul(1e-12).clamp_min(1e-150));
  return {mean, deviation.masked_fill(constant, 1.0)};
}

struct Parts {
  at::Tensor train, validation;  // places of examples
};

Parts split_of(int64_t count, const VectorImport& options) {
  if (!(options.validation > 0.0 && options.validation < 1.0))
    throw InputError("data import", fmt::format("--validation-share must be above 0 and below 1, got {}",
                                                options.validation));
  const auto held = std::max<int64_t>(1, std::llround(options.validation * static_cast<double>(count)));
  if (held >= count)
    throw InputError(
        "data import",
        fmt::format("there must be examples to train on, and {} of {} are for validation", held, count));
  const Permutation order(static_cast<uint64_t>(count),
                          {.seed = options.seed, .stream = Stream::data_order, .step = 0});
  std::vector<int64_t> train, validation;
  for (int64_t i = 0; i < count; ++i) {
    const auto place = static_cast<int64_t>(order(static_cast<uint64_t>(i)));
    (i < held ? validation : train).push_back(place);
  }
  return {at::tensor(train, at::kLong), at::tensor(validation, at::kLong)};
}

void write_statistics(const VectorStatistics& s, const std::filesystem::path& folder) {
  const Json json{{"schema", 1},
                  {"columns", s.columns},
                  {"mean", s.mean},
                  {"deviation", s.deviation},
                  {"outputs", s.outputs},
                  {"output_mean", s.output_mean},
                  {"output_deviation", s.output_deviation}};
  const std::string text = json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
  if (text.size() > kLargestJson)
    throw InputError("data import",
                     fmt::format("the names and statistics of {} columns make more than {} bytes",
                                 s.columns.size(), kLargestJson));
  write_file(folder / kStatistics, text);
}

// No row's RMS is larger, in float32's own values.
double input_bound_of(const at::Tensor& inputs) {
  const double largest = inputs.to(at::kFloat).to(at::kDouble).square().mean(1).sqrt().max().item<double>();
  return std::max(largest * (1.0 + 1e-6), 1e-6);
}

}  // namespace

std::optional<VectorStatistics> read_statistics(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / kStatistics;
  if (!std::filesystem::exists(path)) return std::nullopt;
  const Json json = parse_json(read_file(path, kLargestJson), "data", path.string());
  try {
    const auto numbers = [&](const char* key) { return json.at(key).get<std::vector<double>>(); };
    VectorStatistics s{.columns = json.at("columns").get<std::vector<std::string>>(),
                       .mean = numbers("mean"),
                       .deviation = numbers("deviation"),
                       .outputs = json.at("outputs").get<std::vector<std::string>>(),
                       .output_mean = numbers("output_mean"),
                       .output_deviation = numbers("output_deviation")};
    const auto fit = [](const std::vector<double>& own, size_t size) {
      return own.empty() || own.size() == size;
    };
    bool good = s.mean.size() == s.deviation.size() && s.output_mean.size() == s.output_deviation.size() &&
                fit(s.mean, s.columns.size()) && fit(s.output_mean, s.outputs.size());
    for (const auto* list : {&s.deviation, &s.output_deviation})
      for (const double value : *list) good = good && value > 0.0;
    if (good) return s;
  } catch (const Json::exception&) {
    // below
  }
  throw InputError("data",
                   fmt::format("{} is damaged; import the data again, or copy it from the data set's folder",
                               path.string()));
}

DataSet import_vectors(const std::string& name, const VectorImport& options) {
  check_data_name(name);
  if (is_known(name))
    throw InputError("data import", fmt::format("'{}' is a known data set; choose another name", name));
  const BuildOptions build{.name = name,
                           .if_present = options.replace ? IfPresent::replace : IfPresent::refuse};
  Table table = read_table(options);
  const bool pixels = !options.images.empty();
  if (table.inputs.size(1) > kLargestWidth)
    throw InputError("data import", fmt::format("an example must have at most {} inputs, got {}",
                                                kLargestWidth, table.inputs.size(1)));
  const Parts parts = split_of(table.inputs.size(0), options);
  VectorStatistics statistics{.columns = table.columns, .outputs = table.outputs};
  if (options.standardize && !pixels) {
    const Moments moments = moments_of(table.inputs.index_select(0, parts.train));
    table.inputs = table.inputs.sub(moments.mean).div(moments.deviation);
    statistics.mean = numbers_of(moments.mean);
    statistics.deviation = numbers_of(moments.deviation);
  }
  if (options.standardize && options.regression) {
    const Moments moments = moments_of(table.targets.index_select(0, parts.train));
    table.targets = table.targets.sub(moments.mean).div(moments.deviation);
    statistics.output_mean = numbers_of(moments.mean);
    statistics.output_deviation = numbers_of(moments.deviation);
  }
  if (!table.inputs.to(at::kFloat).isfinite().all().item<bool>() ||
      !table.targets.to(at::kFloat).isfinite().all().item<bool>())
    throw InputError("data import", "numbers must fit into float32, and some do not; standardise them");
  return build_data_set(build, [&](const std::filesystem::path& folder, const std::filesystem::path&) {
    DataSet data{.kind = DataKind::vectors,
                 .folder = folder,
                 .from = origin_of(options),
                 .outputs = static_cast<int64_t>(table.outputs.size())};
    data.vectors = VectorLayout{.inputs = table.inputs.size(1),
                                .regression = options.regression,
                                .input_bound = pixels ? 1.0 : input_bound_of(table.inputs)};
    const auto write = [&](const char* file, const at::Tensor& places) {
      write_vector_file(folder / file, table.inputs.index_select(0, places),
                        table.targets.index_select(0, places));
      return std::vector<DataFile>{{folder / file, places.numel()}};
    };
    data.train = write("train.f32", parts.train);
    data.validation = write("validation.f32", parts.validation);
    write_statistics(statistics, folder);
    return data;
  });
}

}  // namespace bridle
