#include "base/library_error.h"

#include <c10/util/Exception.h>
#include <fmt/format.h>
#include <toml++/toml.h>

#include <cstdlib>
#include <filesystem>
#include <new>
#include <nlohmann/json.hpp>
#include <string_view>
#include <system_error>

#include "bridle/error.h"

namespace bridle {
namespace {

constexpr const char* kSmaller = "make the model, the batch or the input smaller, or free memory";

std::string internal(std::string_view what) {
  return fmt::format("internal error: {}; please report it, with the command that led to it", what);
}

// LibTorch has no kind of its own for a CPU that is out of memory; its allocator says how much was asked for.
[[noreturn]] void rethrow_torch(const std::string& operation, std::string_view text) {
  constexpr std::string_view allocator = "you tried to allocate ";
  const size_t place = text.find(allocator);
  if (place == std::string_view::npos) throw Error(operation, internal("an operation of LibTorch failed"));
  const double bytes = std::strtod(std::string(text.substr(place + allocator.size())).c_str(), nullptr);
  throw InputError(operation, fmt::format("not enough memory: {:.3g} GiB more were needed; {}",
                                          bytes / (1024.0 * 1024.0 * 1024.0), kSmaller));
}

[[noreturn]] void rethrow_file(const std::string& operation, const std::filesystem::filesystem_error& error) {
  std::string paths = error.path1().string();
  if (!error.path2().empty()) paths += fmt::format(" → {}", error.path2().string());
  throw InputError(operation,
                   fmt::format("{}: {}", paths.empty() ? "a file" : paths, error.code().message()));
}

}  // namespace

void rethrow_translated(const std::string& operation) {
  try {
    throw;
  } catch (const Error&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw InputError(operation, fmt::format("not enough memory; {}", kSmaller));
  } catch (const std::length_error&) {
    throw InputError(operation, fmt::format("a size is beyond what memory can hold; {}", kSmaller));
  } catch (const std::filesystem::filesystem_error& error) {
    rethrow_file(operation, error);
  } catch (const std::system_error& error) {
    throw InputError(operation, fmt::format("the system refused: {}", error.code().message()));
  } catch (const nlohmann::json::exception&) {
    throw InputError(operation,
                     "a JSON file is not what it should be; it is damaged, or another version wrote it");
  } catch (const toml::parse_error& error) {
    throw InputError(operation,
                     fmt::format("a TOML file cannot be read, line {}", error.source().begin.line));
  } catch (const c10::Error& error) {
    rethrow_torch(operation, error.what_without_backtrace());
  } catch (const std::out_of_range&) {
    throw Error(operation, internal("a value or a place outside its range"));
  } catch (const std::logic_error&) {
    throw Error(operation, internal("a broken assumption"));
  } catch (const std::exception&) {
    throw Error(operation, internal("an unexpected failure"));
  } catch (...) {
    throw Error(operation, internal("an unknown failure"));
  }
}

}  // namespace bridle
