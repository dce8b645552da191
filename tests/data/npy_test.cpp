#include <ATen/ops/arange.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include "base/files.h"
#include "base/subprocess.h"
#include "bridle/error.h"
#include "data/table.h"
#include "file_support.h"

namespace bridle {
namespace {

// NumPy writes, as a user's NumPy would.
void numpy(const test::TemporaryFolder& folder, const std::string& code) {
  const ProgramResult result = run_program({"/usr/bin/python3", "-c", "import numpy as np\n" + code}, folder);
  ASSERT_EQ(result.exit_code, 0) << result.errors;
}

TEST(NpyFiles, OfEveryTypeAreRead) {
  const test::TemporaryFolder folder;
  for (const char* type : {"<f8", "<f4", "<f2", "<i8", "<i4", "<i2", "i1", "u1"}) {
    numpy(folder, std::string("np.save('x.npy', np.arange(12).reshape(3, 2, 2).astype('") + type +
                      "'))\nnp.save('y.npy', np.array([7, 3, 7]))\nnp.save('z.npy', np.array([[.5, 1], [2, "
                      "3], [4, 5.]]))");
    const Table table = read_npy_pair({.inputs = folder / "x.npy", .targets = folder / "y.npy"});
    EXPECT_TRUE(table.inputs.equal(at::arange(12, at::kDouble).view({3, 4}))) << type;
    EXPECT_TRUE(table.targets.equal(at::tensor({1, 0, 1}, at::kLong)));
    EXPECT_EQ(table.outputs, (std::vector<std::string>{"3", "7"}));
    const Table numbers =
        read_npy_pair({.inputs = folder / "x.npy", .targets = folder / "z.npy", .regression = true});
    EXPECT_EQ(numbers.outputs, (std::vector<std::string>{"y0", "y1"}));
    EXPECT_EQ(numbers.targets[2][1].item<double>(), 5.0);
  }
}

TEST(NpyFiles, ThatAreDamagedOrOfAnotherKindAreRefused) {
  const test::TemporaryFolder folder;
  numpy(folder,
        "np.save('x.npy', np.ones((3, 2), np.float32)); np.save('y.npy', np.arange(3)); np.save('short.npy', "
        "np.arange(2))\n"
        "np.save('f.npy', np.asfortranarray(np.ones((3, 2)))); np.save('big.npy', np.ones((3, 2), '>f4'))\n"
        "np.save('nan.npy', np.full((3, 2), np.nan)); np.save('c.npy', np.ones((3, 2), complex))\n"
        "np.save('flat.npy', np.ones(3)); np.save('none.npy', np.ones((0, 2)))");
  const auto refused = [&](const char* x, const char* y, const char* part, bool regression = false) {
    EXPECT_ERROR(read_npy_pair({.inputs = folder / x, .targets = folder / y, .regression = regression}),
                 InputError, part);
  };
  refused("x.npy", "short.npy", "for 3 examples, got [2]");
  refused("f.npy", "y.npy", "C order");
  refused("big.npy", "y.npy", "little-endian");
  refused("c.npy", "y.npy", "little-endian");
  refused("nan.npy", "y.npy", "NaN or infinity");
  refused("flat.npy", "y.npy", "must have the shape [N, …]");
  refused("none.npy", "y.npy", "it is empty");
  refused("x.npy", "flat.npy", "classes must be integers");
  refused("x.npy", "nan.npy", "NaN or infinity", true);
  const std::string whole = read_file(folder / "x.npy");
  for (const size_t size : {size_t{0}, size_t{5}, size_t{11}, size_t{60}, whole.size() - 1}) {
    write_file(folder / "cut.npy", whole.substr(0, size));
    EXPECT_THROW(read_npy_pair({.inputs = folder / "cut.npy", .targets = folder / "y.npy"}), InputError)
        << size;
  }
}

}  // namespace
}  // namespace bridle
