#include "thinwire/model/projected_factors.h"

#include <type_traits>

#include "thinwire/base/bf16.h"
#include "thinwire/base/scratch.h"
#include "thinwire/tensor/kernels/kernels.h"
#include "thinwire/tensor/products/gemm.h"

namespace thinwire::model {
template <typename T>
Factor<T> ProjectedFactors<T>::project(ThreadPool& threads, const float* basis, int64_t rank,
                                       int64_t tokens, const Factor<T>& factor,
                                       std::vector<T>& out_NR) {
  if (basis == nullptr) return factor;
  T* const out = scratch(out_NR, tokens * rank).data();
  const T* rows;
  if constexpr (std::is_same_v<T, float>) {
    rows = basis;
  } else {
    const int64_t count = rank * factor.width;
    T* const rounded = scratch(basis_, count).data();
    tensor::kernels<T>().store_rows(1, count, nullptr, basis, count, rounded, count);
    rows = rounded;
  }
  tensor::gemm(threads, tensor::Transpose::kNo, tensor::Transpose::kYes, tokens, rank, factor.width,
               factor.values, factor.stride, rows, factor.width, 0, out, rank);
  return {out, rank, rank};
}

template class ProjectedFactors<float>;
template class ProjectedFactors<Bf16>;

}  // namespace thinwire::model
