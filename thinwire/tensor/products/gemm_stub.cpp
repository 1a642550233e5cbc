// gemm_torch.h without LibTorch.
#include <cassert>

#include "thinwire/tensor/products/gemm_torch.h"

namespace thinwire::tensor {

bool has_blas() { return false; }

bool fits_blas(int64_t, int64_t, int64_t, int64_t, int64_t, int64_t) { return false; }

void gemm_blas(Transpose, Transpose, int64_t, int64_t, int64_t, const float*, int64_t, const float*,
               int64_t, float, float*, int64_t) {
  assert(false && "there is no BLAS");
}

const Bf16Tiles* onednn_tiles() { return nullptr; }

void gemm_onednn(Transpose, Transpose, int64_t, int64_t, int64_t, const Bf16*, int64_t, const Bf16*,
                 int64_t, Bf16*, int64_t) {
  assert(false && "there is no oneDNN");
}

}  // namespace thinwire::tensor
