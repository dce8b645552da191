// Files from the web (http, https) and from disk (file://), resumed where an earlier attempt ended.
//
// What came so far stands in PATH.part, which is renamed to PATH when it is complete: PATH holds a whole file or nothing.
// One at a time for a path: the caller holds a lock. Proxies are taken from the environment, as libcurl does.
#pragma once

#include <filesystem>
#include <string>

#include "bridle/progress.h"

namespace bridle {

struct DownloadLimits {
  long connect_seconds = 8;  // name, connection and TLS together
  long slowest_bytes_a_second = 1000;
  long slowest_for_seconds = 20;  // slower than that for so long: give up
};

// Throws InputError with address and reason; what came before it stays in PATH.part for the next attempt, which trusts
// it: where it could be of another file, know the checksum.
void download(const std::string& url, const std::filesystem::path& path, const OnProgress& on_progress = {},
              const DownloadLimits& limits = {});

// The same for a file whose SHA-256 is known: PATH never holds another. On a mismatch nothing is kept.
void download_checked(const std::string& url, const std::filesystem::path& path, const std::string& sha256,
                      const OnProgress& on_progress = {});

}  // namespace bridle
