// Steps of the optimizers over the 56 block matrices of galore-60m (hidden 512, intermediate 1376,
// 8 layers), the renewal of all their bases at rank 128, and products with a fixed order of sums.
// bench/low_rank_step runs them beside PyTorch.
#include <benchmark/benchmark.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "thinwire/base/rng.h"
#include "thinwire/method/optimizers/optimizer.h"
#include "thinwire/method/registry.h"
#include "thinwire/optim/optimizer.h"
#include "thinwire/optim/products.h"
#include "thinwire/optim/subspace.h"

namespace thinwire::optim {
namespace {

constexpr int64_t kRank = 128;

std::vector<TensorSpec> matrices() {
  std::vector<TensorSpec> specs;
  for (int layer = 0; layer < 8; ++layer) {
    for (int i = 0; i < 4; ++i) {
      specs.push_back({"attention", {512, 512}, TensorRole::kMatrix, layer});
    }
    for (int i = 0; i < 2; ++i) specs.push_back({"mlp", {1376, 512}, TensorRole::kMatrix, layer});
    specs.push_back({"mlp", {512, 1376}, TensorRole::kMatrix, layer});
  }
  return specs;
}

void fill(std::span<float> values, uint64_t seed) {
  for (float& value : values) {
    value =
        static_cast<float>(static_cast<int64_t>(mix_bits(seed++) >> 40) - (1 << 23)) * 0x1.0p-30f;
  }
}

// Like a gradient of training: a few directions that all rows share, and noise, so that the new
// basis vectors have most in common before they are orthonormalised.
void fill_gradient(std::span<float> values, int64_t columns, uint64_t seed) {
  std::vector<float> shared(static_cast<size_t>(columns));
  fill(values, seed);
  fill(shared, seed + values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] += 2 * shared[i % shared.size()] * (1 + static_cast<float>(i / shared.size() % 7));
  }
}

struct Case {
  std::string name;
  std::vector<std::string> recipe;
};

std::vector<Case> cases() {
  return {{"adamw", {"optim.method=adamw"}},
          {"muon", {"optim.method=muon"}},
          {"galore", {"optim.method=galore"}},
          {"natural_galore_one", {"optim.method=natural_galore"}},
          {"natural_galore_two", {"optim.method=natural_galore", "natural_galore.sides=two"}},
          {"apollo", {"optim.method=apollo"}},
          {"apollo_mini", {"optim.method=apollo", "apollo.rank=1", "apollo.scaling=tensor"}},
          {"fira", {"optim.method=fira"}},
          {"scale", {"optim.method=scale"}}};
}

// A step without renewal: ranks are a quarter of 512, the default.
void bm_step(benchmark::State& state, const Case& one, int thread_count) {
  const tensor::Layout layout(matrices());
  tensor::Arena params(layout), gradients(layout);
  fill(gradients.all(), 1);
  ThreadPool threads(thread_count);
  std::vector<std::string> recipe = one.recipe;
  const auto optimizer =
      make_optimizer(method::optimizer_options(method::load_recipe({}, recipe)), layout);
  optimizer->step(params, gradients, {0, 1e-3f}, threads);
  for (auto _ : state) optimizer->step(params, gradients, {198, 1e-3f}, threads);
}

// What a step that renews all bases takes beyond one that renews none: the gradients are already
// projected.
void bm_refresh(benchmark::State& state) {
  const tensor::Layout layout(matrices());
  tensor::Arena gradients(layout);
  for (size_t t = 0; t < layout.size(); ++t) {
    fill_gradient(gradients.tensor(t), layout.specs()[t].shape[1], t);
  }
  ThreadPool threads(static_cast<int>(state.range(0)));
  Subspace subspace;
  std::vector<std::vector<float>> bases(layout.size(), std::vector<float>(kRank * 512)), cores;
  const auto held = [&](size_t t, std::vector<float>& basis) {
    const Shape& shape = layout.specs()[t].shape;
    const method::LowRankShape low = {shape[0], shape[1], kRank};
    return std::pair(low, low.projects_rows() ? Bases{basis, {}} : Bases{{}, basis});
  };
  for (size_t t = 0; t < layout.size(); ++t) {
    const auto [low, now] = held(t, bases[t]);
    std::vector<float> earlier(gradients.tensor(t).size());
    fill_gradient(earlier, low.columns, t + layout.size());
    subspace.start(low, now, earlier, t, threads);
    cores.emplace_back(element_count(low.core()));
    subspace.project(low, now, gradients.tensor(t), 1, cores[t], threads);
  }
  std::vector<float> renewed;
  uint64_t number = 0;
  for (auto _ : state) {
    for (size_t t = 0; t < layout.size(); ++t) {
      renewed.assign(bases[t].begin(), bases[t].end());
      const auto [low, now] = held(t, renewed);
      subspace.renew(low, now, {gradients.tensor(t), cores[t], t, number++}, threads);
    }
  }
}
BENCHMARK(bm_refresh)
    ->ArgName("threads")
    ->Arg(1)
    ->Arg(2)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

// Arguments: rows, inner, columns.
void bm_product(benchmark::State& state) {
  const int64_t rows = state.range(0), inner = state.range(1), columns = state.range(2);
  std::vector<float> left(size_t(rows * inner)), right(size_t(inner * columns)),
      out(size_t(rows * columns));
  fill(left, 1);
  fill(right, 2);
  ThreadPool threads(1);
  for (auto _ : state) {
    multiply({left.data(), right.data(), nullptr, out.data(), inner, columns}, rows, threads);
  }
}
BENCHMARK(bm_product)
    ->ArgNames({"rows", "inner", "columns"})
    ->Args({128, 512, 512})
    ->Args({128, 512, 1376})
    ->Args({1376, 512, 128})
    ->Args({1376, 128, 512})
    ->Args({512, 512, 512})
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

const bool kRegistered = [] {
  for (const Case& one : cases()) {
    for (const int threads : {1, 2}) {
      benchmark::RegisterBenchmark(
          ("bm_step/" + one.name + "/threads:" + std::to_string(threads)).c_str(),
          [=](benchmark::State& state) { bm_step(state, one, threads); })
          ->UseRealTime()
          ->Unit(benchmark::kMillisecond);
    }
  }
  return true;
}();

}  // namespace
}  // namespace thinwire::optim
