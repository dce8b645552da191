#include "data/download.h"

#include <curl/curl.h>
#include <fmt/format.h>

#include <array>
#include <charconv>
#include <exception>
#include <memory>
#include <optional>
#include <string_view>

#include "base/checksum.h"
#include "base/files.h"
#include "bridle/error.h"

namespace bridle {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const std::string& url, const std::string& reason, const std::string& hint) {
  throw InputError("download", fmt::format("{}: {}; {}", url, reason, hint));
}

bool is_web(std::string_view url) { return !url.starts_with("file:"); }

int64_t size_if_file(const fs::path& path) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return 0;
  const auto size = fs::file_size(path, error);
  return error ? 0 : static_cast<int64_t>(size);
}

void discard(const fs::path& path) {
  std::error_code error;
  fs::remove(path, error);
  if (error)
    throw InputError("download", fmt::format("{}: {}; remove it by hand", path.string(), error.message()));
}

// One request, whose answer goes to the end of the part file, or replaces it where the server sends all of it.
class Transfer {
 public:
  Transfer(const std::string& url, const fs::path& part, const OnProgress& on_progress);
  void set(const DownloadLimits& limits);
  bool run();  // false: the server has nothing that would continue the part

 private:
  static size_t on_data(char* data, size_t size, size_t count, void* self) noexcept;
  bool begin();
  bool continues_part() const;
  long status() const;
  void check_answer(CURLcode code);

  template <typename Value>
  void option(CURLoption name, Value value) {
    if (curl_easy_setopt(curl_.get(), name, value) != CURLE_OK)
      fail(url_, "this libcurl is built without what it needs", "install libcurl with http, https and file");
  }

  const std::string& url_;
  const fs::path& part_;
  const OnProgress& on_progress_;
  std::unique_ptr<CURL, decltype(&curl_easy_cleanup)> curl_{curl_easy_init(), curl_easy_cleanup};
  std::array<char, CURL_ERROR_SIZE> reason_{};
  std::optional<OutputFile> file_;  // from the first byte of an answer that is the file
  Progress progress_;
  bool misfit_ = false;
  std::exception_ptr failure_;  // thrown in a callback, under C code that it must not pass
};

Transfer::Transfer(const std::string& url, const fs::path& part, const OnProgress& on_progress)
    : url_(url), part_(part), on_progress_(on_progress) {
  progress_ = {.what = "download " + part.stem().string(), .unit = "bytes"};
  option(CURLOPT_URL, url.c_str());
  option(CURLOPT_PROTOCOLS_STR, "http,https,file");
  option(CURLOPT_REDIR_PROTOCOLS_STR, url.starts_with("https:") ? "https" : "http,https");
  option(CURLOPT_FOLLOWLOCATION, 1L);
  option(CURLOPT_MAXREDIRS, 10L);
  option(CURLOPT_USERAGENT, "bridle");
  option(CURLOPT_NOSIGNAL, 1L);
  option(CURLOPT_QUICK_EXIT,
         1L);  // without it, a name server that does not answer holds us long after the timeout
  option(CURLOPT_ERRORBUFFER, reason_.data());
  option(CURLOPT_WRITEFUNCTION, &Transfer::on_data);
  option(CURLOPT_WRITEDATA, this);
  if (is_web(url)) progress_.done = size_if_file(part);
  // Not CURLOPT_RESUME_FROM, which gives up where a server knows no ranges.
  if (progress_.done > 0) option(CURLOPT_RANGE, fmt::format("{}-", progress_.done).c_str());
}

void Transfer::set(const DownloadLimits& limits) {
  option(CURLOPT_CONNECTTIMEOUT, limits.connect_seconds);
  option(CURLOPT_LOW_SPEED_LIMIT, limits.slowest_bytes_a_second);
  option(CURLOPT_LOW_SPEED_TIME, limits.slowest_for_seconds);
}

long Transfer::status() const {
  long value = 0;
  curl_easy_getinfo(curl_.get(), CURLINFO_RESPONSE_CODE, &value);
  return value;
}

bool Transfer::continues_part() const {
  curl_header* header = nullptr;
  if (curl_easy_header(curl_.get(), "Content-Range", 0, CURLH_HEADER, -1, &header) != CURLHE_OK) return false;
  std::string_view value = header->value;
  if (!value.starts_with("bytes ")) return false;
  value.remove_prefix(6);
  int64_t first = -1;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), first);
  return error == std::errc() && first == progress_.done;
}

// Looks at the answer's head before any of its body is kept. False: the body is not the file.
bool Transfer::begin() {
  const long code = status();
  misfit_ = progress_.done > 0 && (code == 416 || (code == 206 && !continues_part()));
  if (misfit_ || (is_web(url_) && code != 200 && code != 206)) return false;
  if (code != 206) progress_.done = 0;
  curl_off_t length = -1;
  curl_easy_getinfo(curl_.get(), CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
  progress_.total = length > 0 ? progress_.done + length : 0;
  file_.emplace(part_, progress_.done > 0 ? OutputFile::Mode::append : OutputFile::Mode::replace);
  return true;
}

size_t Transfer::on_data(char* data, size_t size, size_t count, void* self) noexcept {
  auto& transfer = *static_cast<Transfer*>(self);
  try {
    if (!transfer.file_ && !transfer.begin()) return 0;
    transfer.file_->write(std::string_view(data, size * count));
    transfer.progress_.done += static_cast<int64_t>(size * count);
    report(transfer.on_progress_, transfer.progress_);
    return size * count;
  } catch (...) {
    transfer.failure_ = std::current_exception();
    return 0;
  }
}

void Transfer::check_answer(CURLcode code) {
  if (!file_ && (code == CURLE_OK || code == CURLE_WRITE_ERROR))
    fail(url_, fmt::format("HTTP status {}", status()),
         status() >= 500 ? "try again later" : "check the address");
  if (code == CURLE_OK) return;
  const char* reason = reason_[0] != '\0' ? reason_.data() : curl_easy_strerror(code);
  fail(url_, reason,
       is_web(url_) ? "check the network and try again, or fetch it by hand" : "check the path");
}

bool Transfer::run() {
  const CURLcode code = curl_easy_perform(curl_.get());
  if (failure_) std::rethrow_exception(failure_);
  if (code == CURLE_OK && !file_) begin();  // no body
  if (misfit_) return false;
  if (file_) file_->close();  // before the error: the next attempt goes on from here
  check_answer(code);
  return true;
}

void fetch(const std::string& url, const fs::path& part, const OnProgress& on_progress,
           const DownloadLimits& limits) {
  static const CURLcode ready = curl_global_init(CURL_GLOBAL_DEFAULT);
  if (ready != CURLE_OK) fail(url, curl_easy_strerror(ready), "check the installation of libcurl");
  for (int attempt = 0; attempt < 2; ++attempt) {
    Transfer transfer(url, part, on_progress);
    transfer.set(limits);
    if (transfer.run()) return;
    discard(part);
  }
}

fs::path part_of(const fs::path& path) { return path.string() + ".part"; }

}  // namespace

void download(const std::string& url, const fs::path& path, const OnProgress& on_progress,
              const DownloadLimits& limits) {
  fetch(url, part_of(path), on_progress, limits);
  publish(part_of(path), path);
}

void download_checked(const std::string& url, const fs::path& path, const std::string& sha256,
                      const OnProgress& on_progress) {
  const fs::path part = part_of(path);
  fetch(url, part, on_progress, {});
  const std::string got = sha256_of_file(part);
  if (got != sha256) {
    discard(part);
    discard(path);
    fail(url, fmt::format("SHA-256 {} expected, {} got", sha256, got), "nothing was kept: try again");
  }
  publish(part, path);
}

}  // namespace bridle
