// Shapes of training steps, those of the model of 51.7 M parameters in docs/speed.md and of the
// quickstart, for the benchmarks of matrix products.
#pragma once

#include <benchmark/benchmark.h>

#include <string>
#include <vector>

#include "thinwire/base/rng.h"
#include "thinwire/tensor/products/gemm.h"

namespace thinwire::tensor {

struct ProductShape {
  const char* name;
  Transpose a, b;
  int64_t m, n, k;
  bool wide;  // the result is fp32
};

inline constexpr Transpose kNo = Transpose::kNo, kYes = Transpose::kYes;
inline constexpr ProductShape kShapes[] = {
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

inline std::vector<Bf16> random_values(int64_t count) {
  Rng rng(1, 0);
  std::vector<Bf16> values(static_cast<size_t>(count));
  for (Bf16& value : values) value = to_bf16(static_cast<float>(rng.normal()));
  return values;
}

inline std::vector<float> widened(const std::vector<Bf16>& values) {
  std::vector<float> wide;
  for (const Bf16 value : values) wide.push_back(to_float(value));
  return wide;
}

inline void report(benchmark::State& state, const ProductShape& s) {
  const double flops = 2.0 * static_cast<double>(s.m * s.n * s.k * state.iterations());
  state.counters["FLOP/s"] = benchmark::Counter(flops, benchmark::Counter::kIsRate);
}

// Body is called with (benchmark::State&).
template <typename Body>
void add(const ProductShape& shape, const std::string& name, Body body) {
  benchmark::RegisterBenchmark((shape.name + ("/" + name)).c_str(), std::move(body))
      ->Unit(benchmark::kMillisecond);
}

}  // namespace thinwire::tensor
