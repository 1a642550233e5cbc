#include <ATen/Context.h>

#include <cstdlib>

#include "thinwire/model/torch_arithmetic.h"

namespace thinwire::model {

void choose_torch_arithmetic() {
  // cuBLAS reads it when it is first used. NOLINTNEXTLINE(concurrency-mt-unsafe)
  setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", 0);
  at::globalContext().setDeterministicAlgorithms(true, false);
  at::globalContext().setDeterministicFillUninitializedMemory(false);
  at::globalContext().setAllowBF16ReductionCuBLAS(false);
}

}  // namespace thinwire::model
