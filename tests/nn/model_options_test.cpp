#include "nn/model_options.h"

#include <gtest/gtest.h>

#include <set>

namespace bridle {
namespace {

TEST(ModelOptionKeys, AreUniqueAndExplained) {
  TransformerOptions options;
  std::set<std::string> keys;
  for (const Setting& setting : model_settings(options, "model.")) {
    EXPECT_TRUE(keys.insert(setting.key).second) << setting.key;
    EXPECT_TRUE(setting.key.starts_with("model."));
    EXPECT_FALSE(setting.help.empty()) << setting.key;
  }
  EXPECT_TRUE(keys.contains("model.attention_alpha"));
}

}  // namespace
}  // namespace bridle
