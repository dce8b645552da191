// Checks certificates one after the other, for tests: reads a folder a line, prints the exit code that
// `bridle check FOLDER/certificate.json` would have, and a message.
#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <string>

#include "bridle/error.h"
#include "io/certificate_file.h"

namespace {

int code_of(const std::string& folder, std::string& message) {
  try {
    const auto checked = bridle::check_certificate(folder + "/certificate.json", folder);
    message = checked.loose.empty() ? "valid" : "not tight";
    return 0;
  } catch (const bridle::PromiseError& error) {
    message = error.what();
    return 3;
  } catch (const c10::Error& error) {
    message = error.what_without_backtrace();
    return 1;
  } catch (const std::exception& error) {
    message = error.what();
    return 1;
  }
}

}  // namespace

int main() {
  for (std::string folder; std::getline(std::cin, folder);) {
    std::string message;
    const int code = code_of(folder, message);
    std::replace(message.begin(), message.end(), '\n', ' ');
    std::replace(message.begin(), message.end(), '\0', ' ');
    fmt::print("{} {}\n", code, message.substr(0, 500));
    std::fflush(stdout);
  }
  return 0;
}
