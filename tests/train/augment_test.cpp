#include "train/augment.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include <map>

#include "bridle/error.h"
#include "file_support.h"
#include "support.h"

namespace bridle {
namespace {

constexpr int64_t kSide = 8;
const RandomKey kKey{1, Stream::augmentation, 3};

at::Tensor one_image(int64_t count) {  // every pixel another number
  return at::arange(3 * kSide * kSide, at::kFloat).expand({count, 3 * kSide * kSide}).contiguous();
}

TEST(Augment, ChangesNothingWithoutFlipAndShift) {
  const at::Tensor images = one_image(5);
  EXPECT_TRUE(augment(images, false, 0, kKey).equal(images));
}

TEST(Augment, TakesSquaresOfThreeChannels) {
  EXPECT_ERROR(augment(one_image(2).narrow(1, 0, 30), true, 0, kKey), InputError, "30 numbers");
}

TEST(Augment, FlipsHalfOfTheImages) {
  const at::Tensor images = one_image(2000);
  const at::Tensor moved = augment(images, true, 0, kKey);
  const at::Tensor mirrored = images.view({-1, 3, kSide, kSide}).flip(3).reshape_as(images);
  const at::Tensor same = moved.eq(images).all(1), other = moved.eq(mirrored).all(1);
  EXPECT_TRUE(same.logical_xor(other).all().item<bool>());
  EXPECT_NEAR(same.to(at::kDouble).mean().item<double>(), 0.5, 0.03);
}

// The middle of an image tells by how much it was moved; every move is as likely as any other, and the border is repeated.
TEST(Augment, ShiftsEvenlyInAllDirections) {
  constexpr int64_t count = 9000;
  const at::Tensor moved = augment(one_image(count), false, 1, kKey).view({count, 3, kSide, kSide});
  std::map<int64_t, int64_t> seen;
  for (int64_t i = 0; i < count; ++i) {
    const at::Tensor red = moved[i][0];
    const auto by = red[4][4].item<int64_t>() - (4 * kSide + 4);
    ++seen[by];
    const int64_t down = by > kSide / 2 ? 1 : by < -kSide / 2 ? -1 : 0, right = by - down * kSide;
    EXPECT_EQ(red[kSide - 1].equal(red[kSide - 2]), down == 1);
    EXPECT_EQ(red.select(1, 0).equal(red.select(1, 1)), right == -1);
    EXPECT_EQ(moved[i][2][4][4].item<int64_t>(), red[4][4].item<int64_t>() + 2 * kSide * kSide);
  }
  ASSERT_EQ(seen.size(), 9U);
  for (const auto& [by, times] : seen) EXPECT_NEAR(static_cast<double>(times), count / 9.0, 120.0) << by;
}

TEST(Augment, GivesTheSameForOneKeyAndOthersForTheNext) {
  const auto moved = [](uint64_t step) {
    return augment(one_image(20), true, 2, {1, Stream::augmentation, step});
  };
  EXPECT_TRUE(moved(7).equal(moved(7)));
  EXPECT_FALSE(moved(7).equal(moved(8)));
}

}  // namespace
}  // namespace bridle
