// How fast the planner is: evaluations per second of the scaling-law paper's closed forms, the
// cells of the eager-updates paper's table 5, and the cost of one method for given members.
#include <benchmark/benchmark.h>

#include "thinwire/plan/eager_table.h"
#include "thinwire/plan/method_cost.h"
#include "thinwire/plan/scaling.h"

namespace thinwire::plan {
namespace {

// A scenario is its local steps' efficiency and loss.
void bm_scenario(benchmark::State& state) {
  LinkedClusters setting;
  setting.clusters = 8;
  const LossLaws laws;
  double local_steps = 1;
  for (auto _ : state) {
    local_steps = local_steps < kMaxLocalSteps ? local_steps + 1 : 1;
    benchmark::DoNotOptimize(efficiency(setting, local_steps));
    benchmark::DoNotOptimize(local_loss(laws, 1e9 + local_steps, 2e10, local_steps));
  }
  state.SetItemsProcessed(state.iterations());
}

void bm_table5(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(eager_cells());
}

void bm_method_cost(benchmark::State& state) {
  const std::vector<std::string> overrides = {"model.vocab=32000"};
  const auto candidates = make_candidates("", overrides, 8).all;
  Member member;
  member.name = "machine";
  member.count = 8;
  member.flops = 1e12;
  member.link = {.up_bit_s = 10e6, .down_bit_s = 100e6, .delay_s = 0.02};
  size_t next = 0;
  for (auto _ : state) {
    const Candidate& candidate = candidates[next++ % candidates.size()];
    benchmark::DoNotOptimize(method_cost(candidate, {&member, 1}, {}, 0));
  }
  state.SetItemsProcessed(state.iterations());
}

BENCHMARK(bm_scenario);
BENCHMARK(bm_table5)->Unit(benchmark::kMillisecond)->Iterations(3);
BENCHMARK(bm_method_cost)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace thinwire::plan
