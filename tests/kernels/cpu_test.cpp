#include "kernels/cpu.h"

#include <ATen/ops/linalg_cholesky_ex.h>
#include <ATen/ops/mm.h>
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "bridle/error.h"
#include "support.h"

namespace bridle {
namespace {

using test::normal;

std::string loaded_library(const std::string& part) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find(part) != std::string::npos) return line.substr(line.find('/'));
  }
  return "";
}

TEST(Cpu, TheBlasInUseIsOpenBlasOnOpenMp) {
  EXPECT_NE(loaded_library("openblas"), "") << "run scripts/setup: LibTorch's BLAS is not OpenBLAS";
  const auto parallel = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "openblas_get_parallel"));
  ASSERT_NE(parallel, nullptr);
  EXPECT_EQ(parallel(), 2)
      << "0: no threads, 1: pthreads, 2: OpenMP. Install libopenblas0-openmp (scripts/setup)";
  EXPECT_EQ(loaded_library("/blas/libblas"), "") << "the reference BLAS is loaded as well";
}

TEST(Cpu, OpenBlasUsesKernelsForThisProcessor) {
  if (std::getenv("OPENBLAS_CORETYPE") != nullptr) GTEST_SKIP() << "OPENBLAS_CORETYPE is set by hand";
  if (instruction_set() < InstructionSet::avx2) return;  // then those kernels are the right ones
  EXPECT_NE(runtime_report().blas_core, "Prescott");
}

TEST(Cpu, BlasAndLapackGiveRightResultsWithTheChosenKernels) {
  const at::Tensor a = normal({150, 70}, 1), b = normal({70, 90}, 2);
  const at::Tensor by_hand = a.unsqueeze(2).mul(b.unsqueeze(0)).sum(1);
  EXPECT_LT(test::largest_difference(at::mm(a, b), by_hand), 1e-12);
  EXPECT_LT(test::largest_difference(at::mm(a.to(at::kFloat), b.to(at::kFloat)), by_hand), 1e-4);
  const at::Tensor spd = at::mm(a.t(), a);
  const auto factor = std::get<0>(at::linalg_cholesky_ex(spd));
  EXPECT_LT(test::largest_difference(at::mm(factor, factor.t()), spd), 1e-11);
}

TEST(Cpu, BFloat16ProductsOfLibTorchRunOnThisMachine) {
  // Without the correction in cpu.cpp this ends in SIGILL where the hypervisor hides the AMX palette.
  const at::Tensor a = normal({64, 64}, 3, at::kBFloat16);
  EXPECT_LT(test::largest_difference(at::mm(a, a), at::mm(a.to(at::kFloat), a.to(at::kFloat))), 0.5);
}

TEST(Cpu, AnInstructionSetThatIsNotThereIsAClearError) {
  const auto try_set = [](const char* value) {
    setenv("BRIDLE_ISA", value, 1);
    try {
      const char* name = instruction_set_name(instruction_set());
      std::exit(std::string(name) == value ? 0 : 1);
    } catch (const InputError& error) {
      std::exit(std::string(error.what()).find("avx512") != std::string::npos ? 2 : 3);
    }
  };
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(try_set("plain"), testing::ExitedWithCode(0), "");
  EXPECT_EXIT(try_set("sse9"), testing::ExitedWithCode(2), "");
}

}  // namespace
}  // namespace bridle
