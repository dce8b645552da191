// bridle data: list, get and import data sets.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "base/display.h"
#include "bridle/data.h"
#include "bridle/error.h"
#include "progress_line.h"
#include "verbs.h"

namespace bridle {
namespace {

using Json = nlohmann::ordered_json;

int64_t total(const std::vector<DataFile>& files) {
  int64_t count = 0;
  for (const DataFile& file : files) count += file.count;
  return count;
}

Json describe(const TextSource& part) {
  return {{"name", part.name},           {"package", part.package}, {"version", part.version},
          {"licence", part.licence},     {"sha256", part.sha256},   {"bytes", part.bytes},
          {"documents", part.documents}, {"train", part.train},     {"validation", part.validation}};
}

Json describe(const std::vector<TextSource>& parts) {
  Json list = Json::array();
  for (const TextSource& part : parts) list.push_back(describe(part));
  return list;
}

Json describe(const DataSet& data) {
  Json facts{{"schema", 1},
             {"name", data.name},
             {"folder", data.folder.string()},
             {"from", data.from},
             {"outputs", data.outputs},
             {"train", total(data.train)},
             {"validation", total(data.validation)}};
  if (data.document_token) facts["document_token"] = *data.document_token;
  if (data.vectors) {
    facts["inputs"] = data.vectors->inputs;
    facts["regression"] = data.vectors->regression;
    facts["input_bound"] = data.vectors->input_bound;
  }
  if (!data.sources.empty()) facts["parts"] = describe(data.sources);
  return facts;
}

// What a text of several sources consists of; counts only where it has been made.
void print_parts(const std::vector<TextSource>& parts) {
  if (parts.empty()) return;
  fmt::print("  {:<12}{:>10}{:>12}{:>12}  {:<26}{}\n", "source", "documents", "train", "validation",
             "licence", "package");
  for (const TextSource& part : parts) {
    const auto count = [](int64_t number) { return number == 0 ? std::string("-") : std::to_string(number); };
    fmt::print("  {:<12}{:>10}{:>12}{:>12}  {:<26}{} {}, SHA-256 {}\n", part.name, count(part.documents),
               count(part.train), count(part.validation), part.licence, part.package, part.version,
               part.sha256);
  }
}

void print_data_set(const DataSet& data, bool json) {
  if (json) return fmt::print("{}\n", describe(data).dump(2));
  const char* unit = data.vectors ? "examples" : data.kind == DataKind::images ? "images" : "tokens";
  const char* classes = data.vectors && data.vectors->regression ? "numbers to predict" : "classes";
  const bool is_text = data.kind == DataKind::tokens || data.kind == DataKind::tokenizer;
  const char* outputs = is_text ? "in the vocabulary" : classes;
  fmt::print("{} is in {}\n", data.name, data.folder.string());
  if (data.kind != DataKind::tokenizer)
    fmt::print("  {} training and {} validation {}\n", shown_count(total(data.train)),
               shown_count(total(data.validation)), unit);
  if (data.vectors)
    fmt::print("  {} inputs each, of RMS up to {}\n", shown_count(data.vectors->inputs),
               shown_upper(data.vectors->input_bound));
  fmt::print("  {} {}, from {}\n", shown_count(data.outputs), outputs, data.from);
  if (data.document_token)
    fmt::print("  token {} stands before every document: model.document_token\n", *data.document_token);
  print_parts(data.sources);
}

void list(bool json) {
  const std::vector<KnownData> rows = list_data();
  if (json) {
    Json all{{"schema", 1}, {"folder", data_folder().string()}, {"data", Json::array()}};
    for (const KnownData& row : rows) {
      all["data"].push_back({{"name", row.name},
                             {"present", row.present},
                             {"bytes", row.bytes},
                             {"about", row.about},
                             {"licence", row.licence},
                             {"sources", row.sources},
                             {"parts", describe(row.parts)},
                             {"damage", row.damage}});
    }
    return fmt::print("{}\n", all.dump(2));
  }
  size_t width = 12;
  for (const KnownData& row : rows) width = std::max(width, row.name.size());
  fmt::print("Data sets are kept in {}\n\n{:<{}}  {:<9}{:>10}  {:<38}{}\n", data_folder().string(), "name",
             width, "present", "size", "licence", "what it is");
  for (const KnownData& row : rows) {
    const char* state = !row.damage.empty() ? "damaged" : row.present ? "yes" : "no";
    fmt::print("{:<{}}  {:<9}{:>10}  {:<38}{}\n", row.name, width, state,
               shown_bytes(static_cast<double>(row.bytes)), row.licence,
               row.damage.empty() ? row.about : row.damage);
    for (const std::string& source : row.sources) fmt::print("{:<{}}  from {}\n", "", width + 23, source);
    print_parts(row.parts);
  }
  fmt::print("\nbridle data get NAME fetches one; bridle data import --help shows how to bring your own.\n");
}

struct ImportFlags {
  std::string name;
  std::string path;
  TextImport text;
  TokenImport tokens;
  VectorImport vectors;
  std::vector<std::filesystem::path> npy;
  bool as_they_are = false;
  std::optional<std::string> tokenizer;
  std::optional<int64_t> merges;
  bool replace = false;
};

// What --tokenizer and --merges say together; --merges alone means GPT-2's.
std::optional<TokenizerChoice> choice(const std::optional<std::string>& tokenizer,
                                      const std::optional<int64_t>& merges) {
  if (!tokenizer && !merges) return std::nullopt;
  return TokenizerChoice{.name = tokenizer.value_or("gpt2"), .merges = merges};
}

DataSet import(ImportFlags flags, const Listener& listener) {
  flags.text.replace = flags.tokens.replace = flags.vectors.replace = flags.replace;
  if (!flags.npy.empty()) {
    flags.vectors.inputs = flags.npy.at(0);
    flags.vectors.targets = flags.npy.at(1);
  }
  flags.vectors.standardize = !flags.as_they_are;
  const bool vectors = !flags.vectors.csv.empty() || !flags.npy.empty() || !flags.vectors.images.empty();
  const bool text = !flags.text.text.empty();
  const bool tokens = !flags.tokens.train.empty();
  if (static_cast<int>(!flags.path.empty()) + static_cast<int>(text) + static_cast<int>(tokens) +
          static_cast<int>(!flags.vectors.csv.empty()) + static_cast<int>(!flags.npy.empty()) +
          static_cast<int>(!flags.vectors.images.empty()) !=
      1)
    throw UsageError("data import",
                     "name one thing to import: PATH (for a known data set), --text FILE, --train PATTERN, "
                     "--csv FILE, --npy X Y, or "
                     "--images DIR");
  const auto tokenizer = choice(flags.tokenizer, flags.merges);
  if (vectors && tokenizer) throw UsageError("data import", "--tokenizer and --merges are for text");
  if (vectors) return import_vectors(flags.name, flags.vectors);
  if (tokens && tokenizer)
    throw UsageError("data import", "--tokenizer and --merges are for --text, or for a known text");
  if (tokens) return import_tokens(flags.name, flags.tokens);
  if (text) {
    flags.text.tokenizer = tokenizer.value_or(TokenizerChoice{});
    return import_text(flags.name, flags.text, listener);
  }
  return import_known(flags.name, flags.path, {.tokenizer = tokenizer, .replace = flags.replace}, listener);
}

// Runs with a progress line and prints the data set that it gives.
void with_progress(bool json, const std::function<DataSet(const Listener&)>& run) {
  std::optional<DataSet> data;
  {
    ProgressLine line;
    data = run({[&line](const Progress& progress) { line.show(progress); },
                [&line](const std::string& text) { line.note(text); }});
  }
  print_data_set(*data, json);
}

void add_tokenizer(CLI::App* verb, std::optional<std::string>& tokenizer, std::optional<int64_t>& merges,
                   const char* about) {
  verb->add_option("--tokenizer", tokenizer, about)->type_name("NAME");
  verb->add_option("--merges", merges,
                   "Of GPT-2's 50,000 merges the first so many alone: 7935 give a vocabulary of 8,192")
      ->type_name("N");
}

void add_get(CLI::App* data, const std::shared_ptr<bool>& json) {
  CLI::App* verb = data->add_subcommand("get", "Fetch a known data set");
  verb->footer(
      "Examples:\n  bridle data get shakespeare\n  BRIDLE_DATA=/big/disk bridle data get cifar10\n"
      "  bridle data get prose --tokenizer gpt2 --merges 7935 --as prose8k");
  struct Flags {
    std::string name;
    std::optional<std::string> tokenizer;
    std::optional<int64_t> merges;
    GetOptions options;
  };
  auto flags = std::make_shared<Flags>();
  verb->add_option("name", flags->name, "As bridle data list shows it")->required()->type_name("NAME");
  add_tokenizer(verb, flags->tokenizer, flags->merges,
                "For a text of several sources: gpt2, or a folder with GPT-2's files");
  verb->add_option("--as", flags->options.as, "Keep it under another name")->type_name("NAME");
  verb->add_flag("--replace", flags->options.replace, "Make it anew where it is there");
  verb->add_flag("--json", *json, "Print one JSON object");
  verb->callback([flags, json] {
    flags->options.tokenizer = choice(flags->tokenizer, flags->merges);
    with_progress(*json,
                  [&](const Listener& listener) { return get_data(flags->name, flags->options, listener); });
  });
}

void add_import(CLI::App* data, const std::shared_ptr<bool>& json) {
  CLI::App* verb = data->add_subcommand("import", "Bring a data set of your own, or a known one by hand");
  verb->footer(
      "Examples:\n"
      "  bridle data import shakespeare input.txt                       a known data set that you have "
      "fetched yourself\n"
      "  bridle data import cifar10 cifar-10-binary.tar.gz\n"
      "  bridle data import letters --text letters.txt                  any UTF-8 text, one token a "
      "character\n"
      "  bridle data import essays --text essays.txt --tokenizer gpt2   byte-pair tokens, written as shards\n"
      "  bridle data import small --text essays.txt --tokenizer gpt2 --merges 7935      of 8,192 kinds\n"
      "  bridle data import fineweb --train 'fineweb_train_*.bin' --validation 'fineweb_val_*.bin'\n"
      "  bridle data import wine --csv wine.csv --target quality        a class or a number (--regression) "
      "per row\n"
      "  bridle data import arm --npy X.npy Y.npy --regression\n"
      "  bridle data import digits --images digits                      digits/CLASS/*.png\n"
      "  bridle data import owt --train train.bin --validation val.bin --raw      nanoGPT's files without a "
      "header");
  auto flags = std::make_shared<ImportFlags>();
  verb->add_option("name", flags->name, "What recipes will call it")->required()->type_name("NAME");
  verb->add_option("path", flags->path, "File or folder of a known data set")->type_name("PATH");
  CLI::Option* text = verb->add_option("--text", flags->text.text,
                                       "A UTF-8 text: nine tenths to train on, one to validate with")
                          ->type_name("FILE");
  add_tokenizer(verb, flags->tokenizer, flags->merges, "characters, gpt2, or a folder with GPT-2's files");
  verb->add_option("--shard-tokens", flags->text.shard_tokens, "Tokens in a shard")
      ->type_name("N")
      ->capture_default_str()
      ->needs(text);
  CLI::Option* train = verb->add_option("--train", flags->tokens.train,
                                        "Token files: a path or a quoted pattern; they stay where they are")
                           ->type_name("PATH");
  verb->add_option("--validation", flags->tokens.validation, "The same, to validate with")
      ->type_name("PATH")
      ->needs(train);
  verb->add_flag("--raw", flags->tokens.raw, "Token files without a header, as nanoGPT writes them")
      ->needs(train);
  verb->add_option("--vocabulary-size", flags->tokens.vocabulary_size, "Token ids are below this")
      ->type_name("N")
      ->capture_default_str()
      ->needs(train);
  CLI::Option* csv = verb->add_option("--csv", flags->vectors.csv, "Numbers, with a line of column names")
                         ->type_name("FILE");
  verb->add_option("--target", flags->vectors.target, "The column to predict")
      ->type_name("COLUMN")
      ->needs(csv);
  csv->needs("--target");
  verb->add_option("--leave-out", flags->vectors.leave_out, "Columns that are no inputs")
      ->type_name("COLUMN,…")
      ->delimiter(',')
      ->needs(csv);
  verb->add_option("--npy", flags->npy, "Inputs [N, …] and targets [N] or [N, K]")
      ->type_name("FILE")
      ->expected(2);
  verb->add_option("--images", flags->vectors.images, "PNG images of one size, in a folder per class")
      ->type_name("DIR");
  verb->add_flag("--regression", flags->vectors.regression, "CSV, npy: targets are numbers, not classes");
  verb->add_flag("--as-they-are", flags->as_they_are, "CSV, npy: do not standardise");
  verb->add_option("--validation-share", flags->vectors.validation,
                   "CSV, npy, images: share to validate with")
      ->type_name("SHARE")
      ->capture_default_str();
  verb->add_option("--seed", flags->vectors.seed, "Of the draw of that share")
      ->type_name("N")
      ->capture_default_str();
  verb->add_flag("--replace", flags->replace, "Put it in the place of one with this name");
  verb->add_flag("--json", *json, "Print one JSON object");
  verb->callback([flags, json] {
    with_progress(*json, [&](const Listener& listener) { return import(*flags, listener); });
  });
}

}  // namespace

void add_data(CLI::App& app) {
  CLI::App* data = app.add_subcommand("data", "List, fetch and import data sets");
  data->footer("Examples:\n  bridle data list\n  bridle data get cifar10\n  bridle data import --help");
  data->require_subcommand(1);
  auto json = std::make_shared<bool>(false);

  CLI::App* show = data->add_subcommand("list", "What is known, what is present, and where it comes from");
  show->footer("Examples:\n  bridle data list\n  bridle data list --json | jq '.data[].name'");
  show->add_flag("--json", *json, "Print one JSON object");
  show->callback([json] { list(*json); });

  add_get(data, json);
  add_import(data, json);
}

}  // namespace bridle
