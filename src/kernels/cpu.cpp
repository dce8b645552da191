// See cpu.h. Two libraries below misjudge some machines; both are set right here, once, when libbridle is
// loaded (docs/decisions/0002-set-libraries-right-at-load.md):
//  - OpenBLAS takes a processor whose model number it does not know for one with SSE3 ("Prescott"). It has no
//    call to choose again, but exports its own initialisation.
//  - oneDNN reads the AMX palette from CPUID leaf 0x1D. Where a hypervisor leaves that leaf empty it
//    configures no tiles, and its first product ends in SIGILL.
#include "kernels/cpu.h"

#include <ATen/Parallel.h>
#include <cpuid.h>
#include <dlfcn.h>
#include <fmt/format.h>
#include <malloc.h>
#include <oneapi/dnnl/dnnl.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string_view>

#include "bridle/error.h"

namespace bridle {
namespace {

struct Registers {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
};

Registers cpuid(unsigned leaf, unsigned subleaf) {
  Registers r;
  if (__get_cpuid_count(leaf, subleaf, &r.eax, &r.ebx, &r.ecx, &r.edx) == 0) return {};
  return r;
}

bool reports_amx() {
  const Registers features = cpuid(7, 0);
  constexpr unsigned bf16 = 1u << 22, tile = 1u << 24;
  return (features.edx & bf16) != 0 && (features.edx & tile) != 0;
}

// Linux hands out the tile registers only on request, once per process.
bool kernel_grants_amx() {
  constexpr long request_permission = 0x1023, tile_data = 18;
  return syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
}

InstructionSet detect() {
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
  if (avx512 && __builtin_cpu_supports("avx512bf16"))
    return reports_amx() && kernel_grants_amx() ? InstructionSet::amx : InstructionSet::avx512_bf16;
  if (avx512) return InstructionSet::avx512;
  return avx2 ? InstructionSet::avx2 : InstructionSet::plain;
}

InstructionSet choose() {
  const InstructionSet available = detect();
  const char* wanted = std::getenv("BRIDLE_ISA");
  if (wanted == nullptr || *wanted == '\0') return available;
  for (const auto set : {InstructionSet::plain, InstructionSet::avx2, InstructionSet::avx512,
                         InstructionSet::avx512_bf16, InstructionSet::amx}) {
    if (std::string_view(wanted) != instruction_set_name(set)) continue;
    if (set <= available) return set;
    throw InputError("BRIDLE_ISA", fmt::format("this processor has no {}; the most it can do is {}", wanted,
                                               instruction_set_name(available)));
  }
  throw InputError("BRIDLE_ISA",
                   fmt::format("'{}' is none of plain, avx2, avx512, avx512_bf16, amx", wanted));
}

using CoreName = char* (*)();
using Initialise = void (*)();

std::string blas_core() {
  const auto name = reinterpret_cast<CoreName>(dlsym(RTLD_DEFAULT, "openblas_get_corename"));
  return name == nullptr ? "" : name();
}

// Requires that no other thread is inside OpenBLAS: true while a library is being loaded at start.
bool correct_blas_core() {
  const bool too_old = blas_core() == "Prescott";
  const auto quit = reinterpret_cast<Initialise>(dlsym(RTLD_DEFAULT, "gotoblas_dynamic_quit"));
  const auto init = reinterpret_cast<Initialise>(dlsym(RTLD_DEFAULT, "gotoblas_dynamic_init"));
  const InstructionSet available = detect();
  if (!too_old || quit == nullptr || init == nullptr || available < InstructionSet::avx2) return false;
  if (std::getenv("OPENBLAS_CORETYPE") != nullptr) return false;  // chosen by the user
  setenv("OPENBLAS_CORETYPE", available >= InstructionSet::avx512 ? "SkylakeX" : "Haswell", 1);
  quit();
  init();
  unsetenv("OPENBLAS_CORETYPE");
  return true;
}

bool keep_dnn_from_amx() {
  const bool palette_known = cpuid(0x1D, 0).eax > 0;
  if (!reports_amx() || palette_known) return false;
  return dnnl_set_max_cpu_isa(dnnl_cpu_isa_avx512_core_bf16) == dnnl_success;
}

}  // namespace

InstructionSet instruction_set() {
  static const InstructionSet chosen = choose();
  return chosen;
}

bool has_bfloat16_products() { return instruction_set() >= InstructionSet::avx512_bf16; }

const char* instruction_set_name(InstructionSet set) {
  switch (set) {
    case InstructionSet::plain:
      return "plain";
    case InstructionSet::avx2:
      return "avx2";
    case InstructionSet::avx512:
      return "avx512";
    case InstructionSet::avx512_bf16:
      return "avx512_bf16";
    case InstructionSet::amx:
      return "amx";
  }
  return "unknown";
}

void use_all_cores() {
  if (std::getenv("OMP_NUM_THREADS") != nullptr) return;
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof(allowed), &allowed) == 0) at::set_num_threads(CPU_COUNT(&allowed));
}

void keep_freed_memory() {
  constexpr int most = 1 << 30;
  mallopt(M_MMAP_THRESHOLD, most);
  mallopt(M_TRIM_THRESHOLD, most);
  mallopt(M_ARENA_MAX, 1);  // other threads' arenas give their memory back
}

const RuntimeReport& runtime_report() {
  static const RuntimeReport report = [] {
    const bool corrected = correct_blas_core();
    return RuntimeReport{blas_core(), corrected, keep_dnn_from_amx()};
  }();
  return report;
}

namespace {
[[gnu::constructor]] void set_libraries_right() { runtime_report(); }
}  // namespace

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(": ") + 2);
  }
  return "unknown";
}

}  // namespace bridle
