// Speed of matrix products by every available way (tensor/products/gemm.h), on one thread, in the
// shapes of training steps: those of the model of 51.7 M parameters in docs/speed.md and of the
// quickstart.
#include <benchmark/benchmark.h>

#include <string>
#include <vector>

#include "thinwire/base/rng.h"
#include "thinwire/tensor/products/gemm.h"

namespace thinwire::tensor {
namespace {

struct Shape {
  const char* name;
  Transpose a, b;
  int64_t m, n, k;
  bool wide;  // the result is fp32
};

constexpr Transpose kNo = Transpose::kNo, kYes = Transpose::kYes;
constexpr Shape kShapes[] = {
    {"52m/logits", kNo, kYes, 256, 32000, 512, true},
    {"52m/head_gradient", kYes, kNo, 32000, 512, 512, true},
    {"52m/back_to_width", kNo, kNo, 256, 512, 16000, true},
    {"52m/gate_up_gradient", kYes, kNo, 1376, 512, 2048, true},
    {"52m/gate_up", kNo, kYes, 1024, 2752, 512, false},
    {"52m/down", kNo, kYes, 1024, 512, 1376, false},
    {"52m/gate_up_back", kNo, kNo, 1024, 512, 2752, false},
    {"quickstart/logits", kNo, kYes, 128, 4096, 128, true},
    {"quickstart/head_gradient", kYes, kNo, 4096, 128, 128, true},
    {"quickstart/gate_up_gradient", kYes, kNo, 768, 128, 2048, true},
    {"quickstart/gate_up", kNo, kYes, 1024, 768, 128, false},
    {"quickstart/down", kNo, kYes, 1024, 128, 384, false},
};

std::vector<Bf16> random_values(int64_t count) {
  Rng rng(1, 0);
  std::vector<Bf16> values(static_cast<size_t>(count));
  for (Bf16& value : values) value = to_bf16(static_cast<float>(rng.normal()));
  return values;
}

std::vector<float> widened(const std::vector<Bf16>& values) {
  std::vector<float> wide;
  for (const Bf16 value : values) wide.push_back(to_float(value));
  return wide;
}

void report(benchmark::State& state, const Shape& s) {
  const double flops = 2.0 * static_cast<double>(s.m * s.n * s.k * state.iterations());
  state.counters["FLOP/s"] = benchmark::Counter(flops, benchmark::Counter::kIsRate);
}

void fp32_product(benchmark::State& state, const Shape& s, Fp32Kernel kernel) {
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

void product(benchmark::State& state, const Shape& s, Bf16Kernel kernel) {
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

template <typename Kernel>
void add(const Shape& shape, const std::string& name, Kernel kernel,
         void (*body)(benchmark::State&, const Shape&, Kernel)) {
  benchmark::RegisterBenchmark((shape.name + ("/" + name)).c_str(), [&shape, kernel, body](
                                                                        benchmark::State& state) {
    body(state, shape, kernel);
  })->Unit(benchmark::kMillisecond);
}

const bool kRegistered = [] {
  const std::pair<const char*, Bf16Kernel> kernels[] = {{"avx512", Bf16Kernel::kAvx512},
                                                        {"onednn", Bf16Kernel::kOneDnn},
                                                        {"widened", Bf16Kernel::kWidened},
                                                        {"packed", Bf16Kernel::kPacked}};
  const std::pair<const char*, Fp32Kernel> fp32_kernels[] = {{"fp32_tiled", Fp32Kernel::kTiled},
                                                             {"fp32_blas", Fp32Kernel::kBlas},
                                                             {"fp32_packed", Fp32Kernel::kPacked}};
  for (const Shape& shape : kShapes) {
    for (const auto& [name, kernel] : fp32_kernels) {
      if (has_fp32_kernel(kernel)) add(shape, name, kernel, fp32_product);
    }
    for (const auto& [name, kernel] : kernels) {
      if (has_bf16_kernel(kernel)) add(shape, name, kernel, product);
    }
  }
  return true;
}();

}  // namespace
}  // namespace thinwire::tensor
