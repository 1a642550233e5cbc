// Speed of matrix products by every way that the CPU has (tensor/products/gemm.h), on one thread.
#include "bench/tensor/products.h"

#include <utility>

namespace thinwire::tensor {
namespace {

void fp32_product(benchmark::State& state, const ProductShape& s, Fp32Kernel kernel) {
  const std::vector<float> a = widened(random_values(s.m * s.k));
  const std::vector<float> b = widened(random_values(s.k * s.n));
  std::vector<float> c(static_cast<size_t>(s.m * s.n));
  const int64_t lda = s.a == kNo ? s.k : s.m, ldb = s.b == kNo ? s.n : s.k;
  use_fp32_kernel_for_test(kernel);
  for (auto _ : state) {
    gemm(s.a, s.b, s.m, s.n, s.k, a.data(), lda, b.data(), ldb, 0, c.data(), s.n);
  }
  use_fp32_kernel_for_test(std::nullopt);
  report(state, s);
}

void product(benchmark::State& state, const ProductShape& s, Bf16Kernel kernel) {
  const std::vector<Bf16> a = random_values(s.m * s.k), b = random_values(s.k * s.n);
  std::vector<float> wide(static_cast<size_t>(s.wide ? s.m * s.n : 0));
  std::vector<Bf16> narrow(static_cast<size_t>(s.wide ? 0 : s.m * s.n));
  const int64_t lda = s.a == kNo ? s.k : s.m, ldb = s.b == kNo ? s.n : s.k;
  use_bf16_kernel_for_test(kernel);
  for (auto _ : state) {
    if (s.wide) {
      gemm(s.a, s.b, s.m, s.n, s.k, a.data(), lda, b.data(), ldb, 0, wide.data(), s.n);
    } else {
      gemm(s.a, s.b, s.m, s.n, s.k, a.data(), lda, b.data(), ldb, 0, narrow.data(), s.n);
    }
  }
  use_bf16_kernel_for_test(std::nullopt);
  report(state, s);
}

const bool kRegistered = [] {
  const std::pair<const char*, Bf16Kernel> kernels[] = {
      {"amx", Bf16Kernel::kAmx}, {"avx512", Bf16Kernel::kAvx512}, {"packed", Bf16Kernel::kPacked}};
  const std::pair<const char*, Fp32Kernel> fp32_kernels[] = {{"fp32_tiled", Fp32Kernel::kTiled},
                                                             {"fp32_packed", Fp32Kernel::kPacked}};
  for (const ProductShape& shape : kShapes) {
    for (const auto& [name, kernel] : fp32_kernels) {
      if (!has_fp32_kernel(kernel)) continue;
      add(shape, name, [&shape, kernel = kernel](benchmark::State& state) {
        fp32_product(state, shape, kernel);
      });
    }
    for (const auto& [name, kernel] : kernels) {
      if (!has_bf16_kernel(kernel)) continue;
      add(shape, name,
          [&shape, kernel = kernel](benchmark::State& state) { product(state, shape, kernel); });
    }
  }
  return true;
}();

}  // namespace
}  // namespace thinwire::tensor
