#include "thinwire/cli/version.h"

#include <fmt/format.h>

#include "thinwire/tensor/products/gemm.h"
#include "thinwire/tensor/products/instruction_set.h"

namespace thinwire::cli {

// The macros are set in thinwire/CMakeLists.txt.
std::string version_text() {
  return fmt::format(
      "thinwire {} (commit {})\n"
      "compiler         {}\n"
      "LibTorch         {}\n"
      "CUDA             {}\n"
      "MPI              {}\n"
      "instruction set  {}{}",
      THINWIRE_VERSION, kCommit, THINWIRE_COMPILER, THINWIRE_TORCH_VERSION, THINWIRE_CUDA_SIDE,
      THINWIRE_MPI_VERSION, tensor::instruction_set(),
      tensor::has_fast_bf16_gemm() ? ", bf16 products" : "");
}

}  // namespace thinwire::cli
