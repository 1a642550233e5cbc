// The same products by LibTorch's libraries, on one thread: fp32 by its BLAS, bf16 by oneDNN, whose
// results are bf16, also where Thinwire's are fp32.
#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/mm.h>
#include <c10/core/InferenceMode.h>

#include "bench/tensor/products.h"

namespace thinwire::tensor {
namespace {

template <typename T>
at::Tensor as_matrix(Transpose transpose, int64_t rows, int64_t columns, std::vector<T>& values,
                     at::ScalarType type) {
  const bool plain = transpose == kNo;
  return at::from_blob(values.data(), {rows, columns},
                       {plain ? columns : int64_t{1}, plain ? int64_t{1} : rows}, type);
}

template <typename T>
void multiply(benchmark::State& state, const ProductShape& s, std::vector<T> a, std::vector<T> b,
              at::ScalarType type) {
  at::set_num_threads(1);
  const c10::InferenceMode no_autograd;
  std::vector<T> c(static_cast<size_t>(s.m * s.n));
  at::Tensor out = as_matrix(kNo, s.m, s.n, c, type);
  const at::Tensor left = as_matrix(s.a, s.m, s.k, a, type);
  const at::Tensor right = as_matrix(s.b, s.k, s.n, b, type);
  for (auto _ : state) at::mm_out(out, left, right);
  report(state, s);
}

const bool kRegistered = [] {
  for (const ProductShape& shape : kShapes) {
    add(shape, "fp32_torch", [&shape](benchmark::State& state) {
      multiply(state, shape, widened(random_values(shape.m * shape.k)),
               widened(random_values(shape.k * shape.n)), at::kFloat);
    });
    add(shape, "bf16_torch", [&shape](benchmark::State& state) {
      multiply(state, shape, random_values(shape.m * shape.k), random_values(shape.k * shape.n),
               at::kBFloat16);
    });
  }
  return true;
}();

}  // namespace
}  // namespace thinwire::tensor
