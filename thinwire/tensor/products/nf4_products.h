// Products with matrices in NF4 (tensor/kernels/nf4.h). A panel of the matrix at a time is decoded
// to bf16 into a buffer of the thread, and multiplied by gemm(), so that no matrix is ever decoded
// as a whole.
#pragma once

#include <cstdint>
#include <span>

#include "thinwire/base/half.h"
#include "thinwire/base/threads.h"
#include "thinwire/tensor/kernels/nf4.h"
#include "thinwire/tensor/products/gemm.h"

namespace thinwire::tensor {

// C = A op(W) + beta C, as gemm() of gemm.h: W is made of matrices with the same columns, whose
// rows are one behind another. A has m rows, and C as many. The sums are in the order of those of a
// product with the decoded W, whatever the number of threads.
void gemm_nf4(ThreadPool& threads, Transpose w, int64_t m, const Bf16* A, int64_t lda,
              std::span<const Nf4Matrix> W, float beta, Bf16* C, int64_t ldc);

}  // namespace thinwire::tensor
