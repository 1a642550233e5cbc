// Speed of a Llama's forward and backward pass: tokens/s, model FLOP/s (train_flops_per_token), and
// the latter as a share of the speed of one product of the MLP's shape in the same run on the same
// threads.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <vector>

#include "thinwire/architectures/llama/llama_spec.h"
#include "thinwire/base/clock.h"
#include "thinwire/base/rng.h"
#include "thinwire/method/architectures/architecture.h"
#include "thinwire/model/registry.h"
#include "thinwire/tensor/products/gemm.h"
#include "thinwire/tensor/storage/aligned_buffer.h"

namespace thinwire {
namespace {

struct Shape {
  method::ModelSpec model;
  int64_t rows;
  int64_t sequence;
};

method::ModelSpec section(int64_t hidden, int64_t layers, int64_t heads, int64_t intermediate,
                          int64_t vocab) {
  method::ModelSpec model;
  model.hidden = hidden;
  model.layers = layers;
  model.heads = heads;
  auto& llama = model.options<method::LlamaOptions>();
  llama.kv_heads = heads;
  llama.intermediate = intermediate;
  model.vocab = vocab;
  return model;
}

// 0: quickstart-sized, 1.9 M parameters; 1: 3 M; 2: 51.7 M.
Shape shape(int64_t index) {
  if (index == 0) return {section(128, 4, 4, 384, 4096), 8, 128};
  if (index == 1) return {section(192, 4, 6, 512, 4096), 8, 128};
  return {section(512, 6, 8, 1376, 32000), 4, 512};
}

// FLOP/s of the product of the MLP's first half, the best of several runs.
double gemm_rate(const Shape& shape, ThreadPool& threads) {
  const auto& llama = shape.model.options<method::LlamaOptions>();
  const int64_t m = shape.rows * shape.sequence, n = 2 * llama.intermediate;
  const int64_t k = shape.model.hidden;
  tensor::AlignedBuffer<float> a(m * k), b(n * k), c(m * n);
  std::fill_n(a.data(), m * k, 0.5f);
  std::fill_n(b.data(), n * k, 0.5f);
  double best = 0;
  for (int run = 0; run < 20; ++run) {
    const Stopwatch watch;
    tensor::gemm(threads, tensor::Transpose::kNo, tensor::Transpose::kYes, m, n, k,
                 static_cast<const float*>(a.data()), k, static_cast<const float*>(b.data()), k,
                 0.0f, c.data(), n);
    best = std::max(best, 2.0 * static_cast<double>(m * n * k) / watch.seconds());
  }
  return best;
}

void llama_step(benchmark::State& state) {
  const Shape s = shape(state.range(0));
  const auto precision = state.range(1) == 16 ? Precision::kBf16 : Precision::kFp32;
  ThreadPool threads(1);
  const tensor::Layout layout(method::tensors_of(s.model));
  tensor::Arena params(layout), gradients(layout);
  model::init_parameters(params, s.model, 1);
  const auto llama =
      model::make_model({s.model, precision, layout, params, threads, s.rows, s.sequence});
  std::vector<int32_t> tokens(static_cast<size_t>(s.rows * (s.sequence + 1)));
  Rng rng(1, 0);
  for (int32_t& token : tokens) token = static_cast<int32_t>(rng.below(s.model.vocab));
  llama->loss_and_gradients(tokens, s.rows, 1.0f, gradients);
  const double product = gemm_rate(s, threads);
  for (auto _ : state) {
    benchmark::DoNotOptimize(llama->loss_and_gradients(tokens, s.rows, 1.0f, gradients));
  }
  const double count = static_cast<double>(state.iterations() * s.rows * s.sequence);
  const double flops = method::train_flops_per_token(s.model, s.sequence) * count;
  using benchmark::Counter;
  state.counters["tokens/s"] = Counter(count, Counter::kIsRate);
  state.counters["FLOP/s"] = Counter(flops, Counter::kIsRate);
  state.counters["of_gemm"] = Counter(flops / product, Counter::kIsRate);
  state.counters["gemm"] = product;
  state.counters["MB"] = static_cast<double>(llama->activation_bytes()) / 1e6;
}

BENCHMARK(llama_step)
    ->ArgNames({"shape", "bits"})
    ->ArgsProduct({{0, 1, 2}, {32, 16}})
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace thinwire
