# Flags, linker and compiler cache for every target of the project.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin")

# RelWithDebInfo keeps assertions: it is what the tests run. -O1 takes three quarters of -O2's time
# to compile; only the layers that compute use more (thinwire_layer).
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O1 -g1")
set(CMAKE_CXX_FLAGS_RELEASE "-O1 -DNDEBUG")
set(THINWIRE_COMPUTE_OPTIONS "$<$<CONFIG:RelWithDebInfo>:-O2>$<$<CONFIG:Release>:-O3>")
if(THINWIRE_SANITIZE MATCHES "fuzzer")
  set(THINWIRE_COMPUTE_OPTIONS "")
elseif(THINWIRE_SANITIZE)
  # Compiling takes longer than the tests run: this halves it.
  set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O0 -g1")
  set(THINWIRE_COMPUTE_OPTIONS "-O1")
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # Its garbage collector would walk through the precompiled headers again and again: a group of
  # sources takes 15 % less time without it, and up to 0.7 GB.
  add_compile_options(--param=ggc-min-heapsize=700000)
  # At -O3 GCC 12 sees overflows in growing vectors that are not there.
  string(APPEND CMAKE_CXX_FLAGS_RELEASE " -Wno-stringop-overflow -Wno-array-bounds -Wno-restrict")
endif()

# Replicas must agree bit for bit, so a multiply and an add become an FMA only where the source says
# so, and no target instruction set is chosen here: kernels dispatch at run time.
# errno and floating-point traps are not used; without them square roots and selects vectorise.
add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:-ffp-contract=off;-fno-math-errno;\
-fno-trapping-math;-Wall;-Wextra;-Wshadow;-Woverloaded-virtual;-Werror>")
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  add_compile_options(-Wthread-safety)  # thinwire/base/mutex.h
endif()

if(THINWIRE_SANITIZE)
  add_compile_options(-fsanitize=${THINWIRE_SANITIZE} -fno-sanitize-recover=all
                      -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${THINWIRE_SANITIZE})
endif()

# A program that uses nothing from a library does not load it (LibTorch takes long to load).
add_link_options(-Wl,--as-needed)

find_program(THINWIRE_LLD ld.lld HINTS /usr/lib/llvm-16/bin)
if(THINWIRE_LLD)
  get_filename_component(lld_dir "${THINWIRE_LLD}" DIRECTORY)
  add_link_options(-fuse-ld=lld -B${lld_dir})
endif()

find_program(THINWIRE_CCACHE ccache)
if(THINWIRE_CCACHE)
  # Paths below the source tree are made relative, so that another clone shares the cache.
  # Its manual asks for these settings with precompiled headers.
  set(CMAKE_CXX_COMPILER_LAUNCHER
      ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1
      CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
      ${THINWIRE_CCACHE})
endif()

# thinwire_precompile(<target> PRIVATE <header>...) compiles these headers once for all sources of
# `target`; thinwire_precompile(<target> REUSE_FROM <other>) takes those of another. Only headers of
# libraries, so that no edit recompiles everything. The preset tidy does without: it shows that files
# include what they use.
option(THINWIRE_PRECOMPILE "Compile headers of libraries once" ON)
function(thinwire_precompile target)
  if(NOT THINWIRE_PRECOMPILE)
    return()
  endif()
  target_precompile_headers(${target} ${ARGN})
  # Without these ccache could not store or find the objects.
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:-fpch-preprocess>")
  else()
    target_compile_options(${target} PRIVATE
                           "$<$<COMPILE_LANGUAGE:CXX>:SHELL:-Xclang -fno-pch-timestamp>")
  endif()
endfunction()
