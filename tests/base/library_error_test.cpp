#include "base/library_error.h"

#include <ATen/ops/empty.h>
#include <toml++/toml.h>

#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>

#include "bridle/error.h"
#include "file_support.h"

namespace bridle {
namespace {

void translated(const std::function<void()>& call) {
  try {
    call();
  } catch (...) {
    rethrow_translated("train");
  }
}

// Words that only a library would use, or a trace of its calls.
void expect_our_words(const std::function<void()>& call) {
  try {
    translated(call);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_TRUE(text.starts_with("[train] ")) << text;
    for (const char* foreign : {"std::", "bad_alloc", "filesystem error", "json.exception", "_M_",
                                "basic_string", "Exception raised", "c10::", "frame #", "\n", "enforce fail"})
      EXPECT_EQ(text.find(foreign), std::string::npos) << text;
  }
}

TEST(LibraryErrors, AreToldInBridlesWords) {
  expect_our_words([] { throw std::bad_alloc(); });
  expect_our_words([] { std::vector<int>().reserve(SIZE_MAX); });
  expect_our_words([] { static_cast<void>(std::vector<int>(3).at(5)); });
  expect_our_words([] { static_cast<void>(std::string("abc").substr(7)); });
  expect_our_words([] { static_cast<void>(std::stoi("no number")); });
  expect_our_words([] { return std::filesystem::file_size("/no/such/file"); });
  expect_our_words([] { throw std::system_error(ENOSPC, std::generic_category()); });
  expect_our_words([] { return nlohmann::json::parse("{"); });
  expect_our_words([] { static_cast<void>(nlohmann::json::parse("{}").at("key")); });
  expect_our_words([] { static_cast<void>(nlohmann::json("text").get<int>()); });
  expect_our_words([] { static_cast<void>(toml::parse("a = = 1")); });
  expect_our_words([] { return at::empty({2, 3}).view({5}); });
  expect_our_words([] { return at::empty({2, 3}).mm(at::empty({2, 3})); });
  expect_our_words([] { static_cast<void>(at::empty({int64_t{1} << 50})); });
  expect_our_words([] { throw std::runtime_error("of somebody"); });
  expect_our_words([] { throw 7; });
}

TEST(LibraryErrors, KeepWhatHelps) {
  EXPECT_ERROR(translated([] { return std::filesystem::file_size("/no/such/file"); }), InputError,
               "/no/such/file: No such file or directory");
  EXPECT_ERROR(translated([] { std::filesystem::rename("/no/such", "/no/other"); }), InputError,
               "/no/such → /no/other: No such file");
  EXPECT_ERROR(translated([] { throw std::bad_alloc(); }), InputError, "not enough memory");
  EXPECT_ERROR(translated([] { at::empty({int64_t{1} << 50}); }), InputError,
               "not enough memory: 4.19e+06 GiB more were needed");
  EXPECT_ERROR(translated([] {
                 return at::empty({2, 3}).mm(at::empty({2, 3}));
               }),
               Error, "internal error: an operation of LibTorch failed; please report it");
}

TEST(LibraryErrors, LeaveBridlesOwnAsTheyAre) {
  EXPECT_ERROR(translated([] { throw PromiseError("certify", "no bound"); }), PromiseError,
               "[certify] no bound");
  EXPECT_ERROR(translated([] { throw UsageError("sweep", "a file"); }), UsageError, "[sweep] a file");
}

}  // namespace
}  // namespace bridle
