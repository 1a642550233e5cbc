# The target thinwire::torch, made by hand from the torch wheel. The wheel's own CMake package is
# not used: it adds compiler flags and hides the target protobuf::libprotobuf.

file(GLOB wheels "${CMAKE_SOURCE_DIR}/.venv/lib/python3*/site-packages/torch")
list(POP_FRONT wheels wheel)
set(THINWIRE_TORCH_DIR "${wheel}" CACHE PATH "Folder of the Python package torch")

set(torch_lib "${THINWIRE_TORCH_DIR}/lib")
if(NOT EXISTS "${torch_lib}/libtorch_cpu.so")
  message(FATAL_ERROR "LibTorch not found in '${THINWIRE_TORCH_DIR}'. Run tools/setup.sh test, "
                      "or set THINWIRE_TORCH_DIR, or configure without it (preset release).")
endif()
file(STRINGS "${torch_lib}/libc10.so" cxx11_symbol REGEX "__cxx11" LIMIT_COUNT 1)
if(NOT cxx11_symbol)
  message(FATAL_ERROR "The torch wheel in '${THINWIRE_TORCH_DIR}' was built for the C++ library's "
                      "old ABI; torch 2.7 or newer is needed.")
endif()

add_library(thinwire::torch INTERFACE IMPORTED)
# The wheel's include folder also holds headers of other libraries in versions that differ from those
# linked here (fmt among them), so only the files that use LibTorch may see it.
set(THINWIRE_TORCH_OPTIONS
    -isystem "${THINWIRE_TORCH_DIR}/include"
    -isystem "${THINWIRE_TORCH_DIR}/include/torch/csrc/api/include")
target_link_libraries(thinwire::torch INTERFACE "${torch_lib}/libtorch.so"
                                                "${torch_lib}/libtorch_cpu.so"
                                                "${torch_lib}/libc10.so")

if(THINWIRE_CUDA)
  find_package(CUDAToolkit QUIET)
  if(NOT CUDAToolkit_FOUND)
    message(FATAL_ERROR "THINWIRE_CUDA is on, but there is no CUDA toolkit here (no nvcc found). "
                        "Install one, or configure another preset.")
  endif()
  if(NOT EXISTS "${torch_lib}/libtorch_cuda.so")
    message(FATAL_ERROR "THINWIRE_CUDA is on, but the torch wheel in '${THINWIRE_TORCH_DIR}' has "
                        "no CUDA side. Set THINWIRE_TORCH_DIR to one that has.")
  endif()
  set(CMAKE_CUDA_ARCHITECTURES all-major CACHE STRING "GPUs that own kernels are compiled for")
  enable_language(CUDA)
  # The same arithmetic as on the CPU: no contraction. Functions for both sides are plain constexpr.
  add_compile_options("$<$<COMPILE_LANGUAGE:CUDA>:-fmad=false;--expt-relaxed-constexpr>")
  if(NOT DEFINED CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)  # unknown to CMake 3.25
  endif()
  target_compile_definitions(thinwire::torch INTERFACE THINWIRE_CUDA=1)
  # Nothing refers to a symbol of libtorch_cuda; it registers itself when it is loaded.
  target_link_libraries(
    thinwire::torch INTERFACE -Wl,--no-as-needed "${torch_lib}/libtorch_cuda.so" -Wl,--as-needed
                              "${torch_lib}/libc10_cuda.so" CUDA::cudart)
endif()
