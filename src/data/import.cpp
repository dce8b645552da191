// Data sets from the user's own files.
#include <fmt/format.h>

#include "base/files.h"
#include "bridle/data.h"
#include "bridle/error.h"
#include "data/catalog.h"
#include "data/dataset.h"
#include "data/token_files.h"
#include "data/tokenize.h"
#include "data/tokenizer_choice.h"

namespace bridle {
namespace {

BuildOptions own_set(const std::string& name, bool replace, const Listener& listener) {
  check_data_name(name);
  if (is_known(name)) {
    throw InputError(
        "data import",
        fmt::format(
            "'{}' is a known data set; import it with bridle data import {} PATH, or choose another name",
            name, name));
  }
  return {
      .name = name, .if_present = replace ? IfPresent::replace : IfPresent::refuse, .note = listener.note};
}

std::vector<DataFile> counted(const std::string& name, const std::string& pattern, TokenFormat format) {
  std::vector<DataFile> files;
  if (pattern.empty()) return files;
  for (const std::filesystem::path& path : matching_files(pattern)) {
    if (std::filesystem::weakly_canonical(path).parent_path() ==
        std::filesystem::weakly_canonical(data_folder() / name))
      throw InputError(
          "data import",
          fmt::format("{} belongs to the data set '{}' itself, which would be replaced; choose another name",
                      path.string(), name));
    files.push_back({std::filesystem::absolute(path), count_tokens(path, format)});
  }
  return files;
}

void check_disjoint(const std::vector<DataFile>& train, const std::vector<DataFile>& validation) {
  for (const DataFile& a : train) {
    for (const DataFile& b : validation) {
      if (std::filesystem::equivalent(a.path, b.path))
        throw InputError("data import",
                         fmt::format("{} is both for training and for validation", a.path.string()));
    }
  }
}

}  // namespace

DataSet import_text(const std::string& name, const TextImport& options, const Listener& listener) {
  const BuildOptions build = own_set(name, options.replace, listener);
  if (options.shard_tokens < 1 || options.shard_tokens > INT32_MAX)
    throw InputError("data import", fmt::format("shard_tokens must be from 1 to {}, got {}", INT32_MAX,
                                                options.shard_tokens));
  MappedFile(options.text);  // before a tokenizer is fetched for nothing
  const std::unique_ptr<Tokenizer> tokenizer = open_tokenizer(options.tokenizer, listener);
  return build_data_set(build, [&](const std::filesystem::path& folder, const std::filesystem::path&) {
    DataSet data = tokenize_text(
        {.text = options.text, .tokenizer = tokenizer.get(), .shard_tokens = options.shard_tokens}, folder,
        listener.progress);
    data.from = std::filesystem::absolute(options.text).string();
    return data;
  });
}

DataSet import_tokens(const std::string& name, const TokenImport& options) {
  const BuildOptions build = own_set(name, options.replace, {});
  if (options.vocabulary_size < 1 || options.vocabulary_size > 65536)
    throw InputError("data import",
                     fmt::format("vocabulary_size must be from 1 to 65536, which uint16 tokens "
                                 "allow, got {}",
                                 options.vocabulary_size));
  const TokenFormat format = options.raw ? TokenFormat::raw : TokenFormat::shard;
  const std::vector<DataFile> train = counted(name, options.train, format);
  const std::vector<DataFile> validation = counted(name, options.validation, format);
  check_disjoint(train, validation);
  for (const auto* files : {&train, &validation})
    TokenFiles(*files, format, options.vocabulary_size).check_ids();
  return build_data_set(build, [&](const std::filesystem::path&, const std::filesystem::path&) {
    return DataSet{.kind = DataKind::tokens,
                   .from = std::filesystem::absolute(options.train).string(),
                   .raw = options.raw,
                   .outputs = options.vocabulary_size,
                   .train = train,
                   .validation = validation};
  });
}

}  // namespace bridle
