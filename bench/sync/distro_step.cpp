// One step of DisTrO over the parameters of a 51.7 M Llama (hidden 512, 6 layers, intermediate
// 1376, vocabulary 32000): encode (momentum, transform, selection, packing) and apply (unpacking
// the payloads of `workers`, aggregate, inverse transform, update). Arguments: workers, threads.
//
// `traffic` is the least memory traffic of the step (encode reads gradient and momentum and writes
// the momentum; apply reads and writes the parameters) over the time it took, to be compared with
// what bm_copy reaches on the same machine.
#include <benchmark/benchmark.h>

#include <vector>

#include "thinwire/architectures/llama/llama_spec.h"
#include "thinwire/base/rng.h"
#include "thinwire/method/architectures/architecture.h"
#include "thinwire/method/optimizers/optimizer.h"
#include "thinwire/method/registry.h"
#include "thinwire/methods/distro/distro_applier.h"
#include "thinwire/methods/distro/distro_encoder.h"

namespace thinwire::sync {
namespace {

std::vector<TensorSpec> tensors() {
  method::ModelSpec model;
  model.vocab = 32000;
  model.hidden = 512;
  model.layers = 6;
  model.heads = 8;
  model.options<method::LlamaOptions>().intermediate = 1376;
  return method::tensors_of(model);
}

void fill(tensor::Arena& arena, uint64_t seed) {
  uint64_t at = 0;
  for (float& value : arena.all()) {
    value = static_cast<float>(static_cast<int64_t>(mix_bits(seed + at++) >> 40) - (1 << 23)) *
            0x1.0p-30f;
  }
}

struct Step {
  explicit Step(int threads_per_worker)
      : layout(tensors()),
        params(layout),
        gradients(layout),
        threads(threads_per_worker),
        tiles(options, layout),
        encoder(options, tiles, threads),
        applier(options, {}, optim, tiles, layout, threads) {
    fill(params, 1);
    fill(gradients, 2);
    round.learning_rate = 1e-3f;
  }

  Bytes encode(uint32_t sender) {
    codec::PayloadId id;
    id.sender = sender;
    return encoder.encode(gradients, 1e-3f, id);
  }

  // Payloads of this many workers, each with its own slots.
  std::vector<transport::Delivery> deliveries(int workers) {
    std::vector<transport::Delivery> list;
    for (int worker = 0; worker < workers; ++worker) {
      list.push_back({worker, std::make_shared<const Bytes>(encode(uint32_t(worker)))});
    }
    return list;
  }

  double parameter_bytes() const { return 4.0 * static_cast<double>(layout.total()); }

  method::DistroOptions options;
  method::OptimizerOptions optim = method::optimizer_options(method::load_recipe({}, {}));
  tensor::Layout layout;
  tensor::Arena params;
  tensor::Arena gradients;
  ThreadPool threads;
  codec::DistroTiles tiles;
  DistroEncoder encoder;
  DistroApplier applier;
  Round round;
};

void count_traffic(benchmark::State& state, double bytes) {
  state.counters["traffic"] = benchmark::Counter(
      bytes, benchmark::Counter::kIsIterationInvariantRate, benchmark::Counter::kIs1000);
}

void bm_encode(benchmark::State& state) {
  Step step(static_cast<int>(state.range(0)));
  size_t bytes = 0;
  for (auto _ : state) bytes = step.encode(0).size();
  count_traffic(state, 3 * step.parameter_bytes());
  state.counters["payload_bytes"] = static_cast<double>(bytes);
  state.counters["over_entropy"] =
      static_cast<double>(bytes) * 8 / method::distro_entropy_bits(step.tiles.plan(), 1);
}
BENCHMARK(bm_encode)->ArgName("threads")->Arg(1)->Arg(2)->UseRealTime()->Unit(
    benchmark::kMillisecond);

void bm_apply(benchmark::State& state) {
  Step step(static_cast<int>(state.range(1)));
  const auto deliveries = step.deliveries(static_cast<int>(state.range(0)));
  for (auto _ : state) {
    if (!step.applier.apply(deliveries, step.round, step.params, step.gradients)) {
      state.SkipWithError("a payload was refused");
      return;
    }
  }
  count_traffic(state, 2 * step.parameter_bytes());
}
BENCHMARK(bm_apply)
    ->ArgNames({"workers", "threads"})
    ->Args({1, 1})
    ->Args({1, 2})
    ->Args({32, 1})
    ->Args({32, 2})
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

void bm_copy(benchmark::State& state) {
  Step step(static_cast<int>(state.range(0)));
  for (auto _ : state) {
    step.threads.for_ranges(step.layout.total(), 1024, [&](int64_t begin, int64_t end, int) {
      std::copy_n(step.gradients.all().data() + begin, end - begin,
                  step.params.all().data() + begin);
    });
    benchmark::ClobberMemory();
  }
  count_traffic(state, 2 * step.parameter_bytes());
}
BENCHMARK(bm_copy)->ArgName("threads")->Arg(1)->Arg(2)->UseRealTime()->Unit(
    benchmark::kMillisecond);

}  // namespace
}  // namespace thinwire::sync
