#include <gtest/gtest.h>

#include "bridle/error.h"
#include "bridle/run.h"
#include "file_support.h"
#include "io/certificate_file.h"
#include "train_support.h"

namespace bridle {
namespace {

TEST(ASealedRun, StandsInItsOwnFolderWithItsLossAndCertificate) {
  const test::TemporaryData data;
  const auto run = test::short_run(data);
  const SealResult same = seal_run(run.folder, data / "same");
  EXPECT_TRUE(same.changed.empty());  // training left it inside its caps
  EXPECT_EQ(same.loss_before, same.loss_after);
  const double bound = 0.2 * same.bound.lipschitz.value;
  const SealResult tighter = seal_run(run.folder, data / "tighter", bound);
  EXPECT_FALSE(tighter.changed.empty());
  EXPECT_LE(tighter.bound.lipschitz.value, bound);
  ASSERT_TRUE(tighter.loss_before && tighter.loss_after);
  EXPECT_EQ(*tighter.loss_before, *same.loss_before);
  EXPECT_NE(*tighter.loss_before, *tighter.loss_after);
  EXPECT_TRUE(check_certificate(data / "tighter" / "certificate.json", data / "tighter").loose.empty());
  EXPECT_EQ(open_run(data / "tighter").options.data.name, "words");
  EXPECT_ERROR(seal_run(run.folder, data / "negative", -3.0), InputError, "must be positive, got -3");
  EXPECT_ERROR(seal_run(run.folder, data / "tighter", bound), InputError, "is there already");
}

TEST(ASealedModel, NeedNotBeARun) {
  const test::TemporaryData data;
  const auto run = test::short_run(data);
  std::filesystem::create_directory(data / "bare");
  for (const char* name : {"config.json", "model.safetensors"})
    std::filesystem::copy_file(run.folder / name, data / "bare" / name);
  EXPECT_ERROR(seal_run(data / "bare", data / "out"), InputError, "--lipschitz");
  const SealResult sealed = seal_run(data / "bare", data / "out", 3.0);
  EXPECT_LE(sealed.bound.lipschitz.value, 3.0);
  EXPECT_FALSE(sealed.loss_before);
  EXPECT_NE(sealed.no_loss.find("not a run"), std::string::npos);
}

}  // namespace
}  // namespace bridle
