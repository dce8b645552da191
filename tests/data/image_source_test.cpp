#include "data/image_source.h"

#include "bridle/error.h"
#include "data/cifar.h"
#include "file_support.h"

namespace bridle {
namespace {

using test::TemporaryFolder;

// Two files of four images; image i has label i, its red plane is 10·i, green 10·i + 1, blue alternates 0 and 255.
std::shared_ptr<const ImageFiles> eight_images() {
  const TemporaryFolder folder;
  std::vector<DataFile> files;
  for (int f = 0; f < 2; ++f) {
    std::string bytes;
    for (int i = 4 * f; i < 4 * f + 4; ++i) {
      bytes += static_cast<char>(i);
      bytes +=
          std::string(1024, static_cast<char>(10 * i)) + std::string(1024, static_cast<char>(10 * i + 1));
      for (int j = 0; j < 512; ++j) bytes += std::string("\x00\xff", 2);
    }
    files.push_back({folder / std::to_string(f), 4});
    write_file(files.back().path, bytes);
  }
  return std::make_shared<ImageFiles>(files);
}

TEST(Images, ArePixelsBetweenZeroAndOne) {
  const ImageSource source(eight_images(), {.begin = 0, .end = 8});
  const std::vector<int64_t> starts{5, 0};
  const Batch batch = source.read(starts);
  ASSERT_EQ(batch.inputs.sizes(), (std::vector<int64_t>{2, 3072}));
  EXPECT_EQ(batch.targets[0].item<int64_t>(), 5);
  EXPECT_FLOAT_EQ(batch.inputs[0][0].item<float>(), 50.0F / 255.0F);
  EXPECT_FLOAT_EQ(batch.inputs[0][1024].item<float>(), 51.0F / 255.0F);
  EXPECT_EQ(batch.inputs[0][3071].item<float>(), 1.0F);
  EXPECT_EQ(batch.inputs[1][0].item<float>(), 0.0F);
}

TEST(Images, AreStandardisedByChannel) {
  const auto images = eight_images();
  const ImageSource source(images, {.begin = 0, .end = 8, .standardize = channel_statistics(*images)});
  const std::vector<int64_t> all{0, 1, 2, 3, 4, 5, 6, 7};
  const at::Tensor pixels = source.read(all).inputs.view({8, 3, 1024}).to(at::kDouble);
  for (int64_t channel = 0; channel < 3; ++channel) {
    EXPECT_NEAR(pixels.select(1, channel).mean().item<double>(), 0.0, 1e-6);
    EXPECT_NEAR(pixels.select(1, channel).square().mean().item<double>(), 1.0, 1e-5);
  }
}

TEST(Images, HaveAShareOfRandomLabels) {
  const TemporaryFolder folder;
  constexpr int64_t kCount = 2000;
  write_file(folder / "f", std::string(kCount * kCifarRecord, '\x03'));
  const auto images = std::make_shared<ImageFiles>(std::vector<DataFile>{{folder / "f", kCount}});
  std::vector<int64_t> all(kCount);
  for (int64_t i = 0; i < kCount; ++i) all[static_cast<size_t>(i)] = i;
  const auto labels = [&](double share, uint64_t seed) {
    return ImageSource(images, {.begin = 0, .end = kCount, .random_labels = share, .seed = seed})
        .read(all)
        .targets;
  };
  EXPECT_EQ(labels(0.0, 1).eq(3).sum().item<int64_t>(), kCount);
  EXPECT_NEAR(labels(0.5, 1).eq(3).sum().item<double>() / kCount, 0.55,
              0.05);  // a tenth of the random ones are right
  EXPECT_TRUE(labels(0.5, 1).equal(labels(0.5, 1)));
  EXPECT_FALSE(labels(0.5, 1).equal(labels(0.5, 2)));
  for (int64_t c = 0; c < 10; ++c) EXPECT_NEAR(labels(1.0, 1).eq(c).sum().item<double>() / kCount, 0.1, 0.03);
  EXPECT_ERROR(labels(1.5, 1), InputError, "random_labels must be from 0 to 1, got 1.5");
}

TEST(Images, RefuseTruncatedFilesAndWrongLabels) {
  const TemporaryFolder folder;
  write_file(folder / "f", std::string(3 * kCifarRecord - 1, '\x03'));
  EXPECT_ERROR(ImageFiles({{folder / "f", 3}}), InputError, "truncated");
  write_file(folder / "f", std::string(3 * kCifarRecord, '\x0a'));
  const auto images = std::make_shared<ImageFiles>(std::vector<DataFile>{{folder / "f", 3}});
  EXPECT_ERROR(ImageSource(images, {.begin = 0, .end = 3}), InputError, "image 0 has label 10");
  EXPECT_ERROR(ImageSource(images, {.begin = 3, .end = 3}), InputError, "empty");
}

}  // namespace
}  // namespace bridle
