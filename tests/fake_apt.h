// An `apt-get` and an `apt-cache` that stand before all others on PATH, have the packages that the test gives them and note
// how they are called.
#pragma once

#include <fmt/format.h>
#include <sys/stat.h>

#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

#include "base/checksum.h"
#include "base/files.h"
#include "file_support.h"

namespace bridle::test {

class FakeApt {
 public:
  // `script` is run in place of everything, where it is not empty.
  explicit FakeApt(const std::string& script = "") {
    make_folder(folder_ / "packages");
    write_file(folder_ / "log", "");
    const std::string start =
        fmt::format("#!/bin/sh\necho \"${{0##*/}} $*\" >> '{}'\n", (folder_ / "log").string());
    write_program("apt-get", start + script + (script.empty() ? "" : "\nexit 0\n") +
                                 fmt::format(R"sh(
cd_to='{}'
for name in "$@"; do :; done
name=${{name%%=*}}
if [ ! -e "$cd_to/$name" ]; then echo "E: Unable to locate package $name" >&2; exit 100; fi
if [ "$2" = --print-uris ]; then cat "$cd_to/$name"; exit 0; fi
if [ -e "$cd_to/delay" ]; then sleep 100; fi
cp "$cd_to/$name.deb" "$(cut -d' ' -f2 "$cd_to/$name")"
)sh",
                                             (folder_ / "packages").string()));
    write_program("apt-cache", start + fmt::format("cat '{}'\n", (folder_ / "packages/depends").string()));
  }

  // What is fetched is `sent`, which is the contents unless the package is to be damaged on its way.
  void add(const std::string& name, const std::string& version, const std::string& contents,
           const std::string& sent = "") const {
    const std::filesystem::path packages = folder_ / "packages";
    write_file(packages / (name + ".deb"), contents);
    const std::string sum = sha256_of_file(packages / (name + ".deb"));
    if (!sent.empty()) write_file(packages / (name + ".deb"), sent);
    write_file(packages / name, fmt::format("'http://127.0.0.1/{0}.deb' {0}_{1}_all.deb {2} SHA256:{3}\n",
                                            name, version, contents.size(), sum));
  }

  void set_depends(const std::string& output) const { write_file(folder_ / "packages/depends", output); }
  void delay_download() const { write_file(folder_ / "packages/delay", ""); }

  std::vector<std::string> calls() const {
    std::istringstream lines(read_file(folder_ / "log"));
    std::vector<std::string> calls;
    for (std::string line; std::getline(lines, line);) calls.push_back(line);
    return calls;
  }

 private:
  void write_program(const std::string& name, const std::string& script) const {
    make_folder(folder_ / "bin");
    write_file(folder_ / "bin" / name, script);
    ::chmod((folder_ / "bin" / name).c_str(), 0755);
  }

  TemporaryFolder folder_;
  EnvironmentVariable path_{"PATH", (folder_ / "bin").string() + ":" + std::getenv("PATH")};
};

}  // namespace bridle::test
