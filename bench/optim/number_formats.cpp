// AdamW's pass over weights and state in each number format (docs/memory.md), beside a plain copy:
// both are limited by memory, so bytes_per_second says how much of it the arithmetic leaves.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <cstring>
#include <string>
#include <vector>

#include "thinwire/base/rng.h"
#include "thinwire/method/method.h"
#include "thinwire/method/optimizers/optimizer.h"
#include "thinwire/method/registry.h"
#include "thinwire/optim/optimizer.h"

namespace thinwire::optim {
namespace {

constexpr int64_t kSide = 4096;

struct Formats {
  WeightFormat weights;
  StateFormat state;
};

void fill(std::span<float> values, uint64_t seed) {
  for (float& value : values) {
    value =
        static_cast<float>(static_cast<int64_t>(mix_bits(seed++) >> 40) - (1 << 23)) * 0x1.0p-30f;
  }
}

// A step reads the gradient, and reads and writes weights and state.
void bm_adamw(benchmark::State& state, Formats formats) {
  const tensor::Layout layout({{"w", {kSide, kSide}, TensorRole::kMatrix, 0}});
  tensor::Arena params(layout, formats.weights), gradients(layout);
  fill(gradients.all(), 1);
  ThreadPool threads(static_cast<int>(state.range(0)));
  const std::vector<std::string> recipe = {fmt::format("optim.state={}", name_of(formats.state))};
  const config::Recipe used = method::load_recipe({}, recipe);
  const auto optimizer = make_optimizer(method::optimizer_options(used), layout);
  uint64_t step = 0;
  for (auto _ : state) optimizer->step(params, gradients, {step++, 1e-3f}, threads);
  const auto moved = 4 * static_cast<double>(layout.total()) +
                     2 * static_cast<double>(weight_bytes(formats.weights, layout.total())) +
                     2 * method::optimizer_bytes(used, layout.specs());
  state.SetBytesProcessed(static_cast<int64_t>(moved) * state.iterations());
  state.counters["ns_a_value"] = benchmark::Counter(
      static_cast<double>(layout.total()) * 1e-9,
      benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

// Reads and writes as many bytes each.
void bm_copy(benchmark::State& state) {
  std::vector<float> from(kSide * kSide, 1.0f), to(kSide * kSide);
  const auto count = static_cast<int64_t>(to.size());
  ThreadPool threads(static_cast<int>(state.range(0)));
  for (auto _ : state) {
    threads.for_ranges(count, 1024, [&](int64_t begin, int64_t end, int) {
      std::memcpy(to.data() + begin, from.data() + begin,
                  static_cast<size_t>(end - begin) * sizeof(float));
    });
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(2 * count * static_cast<int64_t>(sizeof(float)) * state.iterations());
}

const bool kFormatsRegistered = [] {
  const auto add = [](const std::string& name, const auto& body) {
    for (const int threads : {1, 2}) {
      benchmark::RegisterBenchmark((name + "/threads:" + std::to_string(threads)).c_str(), body)
          ->Arg(threads)
          ->UseRealTime()
          ->Unit(benchmark::kMillisecond);
    }
  };
  add("bm_formats/copy", bm_copy);
  for (const WeightFormat weights : {WeightFormat::kF32, WeightFormat::kBf16}) {
    for (const StateFormat state : {StateFormat::kF32, StateFormat::kBf16, StateFormat::k8Bit}) {
      add(fmt::format("bm_formats/weights_{}_state_{}", name_of(weights), name_of(state)),
          [=](benchmark::State& run) {
            bm_adamw(run, {weights, state});
          });
    }
  }
  return true;
}();

}  // namespace
}  // namespace thinwire::optim
