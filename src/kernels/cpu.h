// Which instruction set the kernels use, chosen at run time, and the state of the libraries below.
#pragma once

#include <string>

namespace bridle {

// Each includes the ones before it.
enum class InstructionSet { plain, avx2, avx512, avx512_bf16, amx };

// What this processor and kernel can run; the environment variable BRIDLE_ISA (plain, avx2, avx512, avx512_bf16, amx) lowers it, for
// tests. Throws InputError when the variable asks for more than there is, or for something unknown.
InstructionSet instruction_set();
const char* instruction_set_name(InstructionSet set);

// Whether it multiplies bfloat16 factors: avx512_bf16 or amx.
bool has_bfloat16_products();

// LibTorch reads the number of cores from files that some virtual machines lack, and then runs on one. Lets
// it use all that this process may run on, unless OMP_NUM_THREADS says otherwise. For programs, not for
// libraries.
void use_all_cores();

// Memory that is given back stays with the process, so that large tensors, which come and go with every step, cause no page
// faults. For programs, not for libraries.
void keep_freed_memory();

// What had to be set right in the libraries Bridle stands on when it was loaded.
struct RuntimeReport {
  std::string blas_core;     // OpenBLAS's kernel family in use; empty where the BLAS is another one
  bool blas_core_corrected;  // OpenBLAS did not know this processor and had chosen kernels for an old one
  bool dnn_without_amx;      // oneDNN was kept from AMX, which it cannot configure on this machine
};
const RuntimeReport& runtime_report();

std::string processor_name();  // as the system calls it

}  // namespace bridle
