#include "io/vnnlib.h"

#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include "bridle/error.h"
#include "file_support.h"

namespace bridle {
namespace {

TEST(AVnnlibProperty, NamesInputsAndEveryOtherClass) {
  const std::string text = vnnlib_text({.vector = at::tensor({0.5, -0.25}, at::kDouble),
                                        .predicted = 1,
                                        .outputs = 3,
                                        .epsilon = 0.125,
                                        .note = "a note"});
  EXPECT_TRUE(text.starts_with("; a note\n(declare-const X_0 Real)\n(declare-const X_1 Real)\n"));
  EXPECT_NE(text.find("(assert (or\n  (and (>= Y_0 Y_1))\n  (and (>= Y_2 Y_1))\n))\n"), std::string::npos);
}

// The box must not be larger than what is certified, whatever decimals do.
TEST(AVnnlibProperty, HasABoxThatLiesInsideTheOneAskedFor) {
  for (const double epsilon : {0.1, 1e-3, 3.3333333333333e-7, 1e-12}) {
    for (const double x : {0.0, 0.3, -0.7, 1.0 / 3.0, 1e-9, 12.3456789}) {
      const std::string text = vnnlib_text({.vector = at::tensor({x}, at::kDouble), .epsilon = epsilon});
      const auto after = [&](const std::string& start) {
        const size_t at = text.find(start) + start.size();
        return std::stold(text.substr(at));
      };
      const long double low = after("(>= X_0 "), high = after("(<= X_0 ");
      EXPECT_GE(low, static_cast<long double>(x) - epsilon);
      EXPECT_LE(high, static_cast<long double>(x) + epsilon);
      EXPECT_LE(low, high);
    }
  }
  EXPECT_ERROR(vnnlib_text({.vector = at::tensor({1.0}, at::kDouble), .epsilon = 1e-20}), InputError,
               "box must hold a number");
}

}  // namespace
}  // namespace bridle
