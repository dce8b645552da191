#include "data/prose/sources.h"

#include <gtest/gtest.h>

#include <set>

namespace bridle {
namespace {

TEST(ProseSources, AreWholeAndHaveNamesOfTheirOwn) {
  std::set<std::string> names, packages;
  for (const ProseSource& source : prose_sources()) {
    EXPECT_TRUE(names.insert(source.name).second) << source.name;
    EXPECT_TRUE(packages.insert(source.package).second) << source.name;
    EXPECT_EQ(source.name.find_first_not_of("abcdefghijklmnopqrstuvwxyz"), std::string::npos) << source.name;
    EXPECT_FALSE(source.licence.empty() || source.version.empty() || source.members.empty()) << source.name;
    EXPECT_EQ(source.sha256.size(), 64U) << source.name;
    EXPECT_GT(source.bytes, 100000) << source.name;
    EXPECT_TRUE(source.dependency.empty() || source.registry == Registry::debian) << source.name;
  }
}

TEST(ProseSources, NameTheirRegistry) {
  EXPECT_EQ(package_name({.registry = Registry::npm, .package = "@a/b"}), "npm package @a/b");
  EXPECT_EQ(package_name({.package = "b"}), "Debian package b");
}

}  // namespace
}  // namespace bridle
