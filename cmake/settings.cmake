# Compiler settings shared by every target, as an interface library that is never exported.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_INSTALL_RPATH "$ORIGIN/../lib")

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()

find_program(CCACHE ccache)
if(CCACHE AND NOT BRIDLE_TIDY)
  # Precompiled headers need both of these, or every compilation is a miss.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros ${CCACHE})
endif()

add_library(bridle_settings INTERFACE)
# No contraction: a fused multiply-add where none was written would change what the rounding analysis
# in docs/theory is about. No fast-math for the same reason, here or in any file.
target_compile_options(bridle_settings INTERFACE
  -Wall -Wextra -Wshadow -Wconversion -ffp-contract=off -fopenmp-simd -fpch-preprocess -Wno-psabi)
# A value of an enum that a switch does not handle is an error everywhere, a default or not: a new activation must be seen
# by whoever computes, bounds, fuses or checks one.
target_compile_options(bridle_settings INTERFACE -Wswitch-enum -Werror=switch-enum)
if(BRIDLE_WERROR)
  target_compile_options(bridle_settings INTERFACE -Werror)
endif()

if(BRIDLE_SANITIZE)
  # GCC 12 sees uninitialised memory in LibTorch's own optional once the sanitizers have changed the inlining.
  target_compile_options(bridle_settings INTERFACE -fsanitize=address,undefined -fno-sanitize-recover=undefined
                         -fno-omit-frame-pointer -O1 -Wno-maybe-uninitialized)
  target_link_options(bridle_settings INTERFACE -fsanitize=address,undefined)
endif()

if(BRIDLE_TIDY)
  find_program(CLANG_TIDY clang-tidy REQUIRED)
  set(CMAKE_CXX_CLANG_TIDY ${CLANG_TIDY} --extra-arg=-Wno-unknown-warning-option --extra-arg=-Wno-ignored-optimization-argument
      --extra-arg-before=-include${CMAKE_CURRENT_LIST_DIR}/tidy_prelude.h)
  set(CMAKE_DISABLE_PRECOMPILE_HEADERS ON)
endif()

# Instruction sets belong to single files, named for them, and are chosen at run time: never -march=native. No bound is
# computed there, so multiply-adds may be fused.
function(bridle_instruction_sets target)
  get_target_property(sources ${target} SOURCES)
  foreach(source ${sources})
    if(source MATCHES "_amx\\.cpp$")
      set(flags "-mavx512f;-mavx512bw;-mavx512vl;-mavx512dq;-mavx512bf16;-mamx-tile;-mamx-bf16;-mfma;-mbmi2;-mprfchw")
    elseif(source MATCHES "_avx512_bf16\\.cpp$")
      set(flags "-mavx512f;-mavx512bw;-mavx512vl;-mavx512dq;-mavx512bf16;-mfma;-mbmi2;-mprfchw;-mprefer-vector-width=512")
    elseif(source MATCHES "_avx512\\.cpp$")
      set(flags "-mavx512f;-mavx512bw;-mavx512vl;-mavx512dq;-mfma;-mbmi2;-mprfchw;-mprefer-vector-width=512")
    elseif(source MATCHES "_avx2\\.cpp$")
      set(flags "-mavx2;-mfma;-mbmi2")
    else()
      continue()
    endif()
    set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS "${flags};-ffp-contract=fast" SKIP_PRECOMPILE_HEADERS ON)
  endforeach()
endfunction()
