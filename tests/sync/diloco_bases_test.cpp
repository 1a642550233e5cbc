// DiLoCo whose inner optimizer works in subspaces: its bases, and how many dimensions the weights
// move in.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/optim/jacobi.h"
#include "tests/sync/hashed_run.h"

namespace thinwire::sync {
namespace {

using testing::ElementsAreArray;
using testing::Not;

constexpr int64_t kRank = 2;
constexpr int kSteps = 24;

HashedRunOptions run_with(const char* basis, int refresh) {
  HashedRunOptions options;
  options.recipe = fmt::format(
      "[sync]\nmethod = \"diloco\"\n[diloco]\nsync_every = 4\nwire = \"fp32\"\n"
      "[train]\nsteps = {}\nworkers = 2\n[optim]\nmethod = \"galore\"\nweight_decay = 0\n"
      "[galore]\nrank = {}\nbasis = \"{}\"\nrefresh = {}\n",
      kSteps, kRank, basis, refresh);
  options.tensors = {{"wide", {12, 20}, TensorRole::kMatrix, 0},
                     {"tall", {22, 14}, TensorRole::kMatrix, 0}};
  options.gradient_scales = {0.5f, 0.25f};
  options.workers = 2;
  return options;
}

// The rank of the first tensor's change over the run, up to rounding.
int dimensions_moved_in(const HashedRunOptions& options) {
  HashedRun run(options);
  // The shared weights are set in the first step.
  const std::span<const float> initial = run.replicas().params(0).tensor(0);
  std::vector<float> change(initial.begin(), initial.end());
  for (int step = 0; step < kSteps; ++step) EXPECT_TRUE(run.step(0.01f));
  const std::span<const float> now = run.params(0, 0);
  for (size_t i = 0; i < change.size(); ++i) change[i] = now[i] - change[i];
  const auto values = optim::left_singular_vectors(change, 12, 20).values;
  return static_cast<int>(
      std::ranges::count_if(values, [&](double value) { return value > 1e-4 * values[0]; }));
}

// Renewals of the first tensor after steps 5, 10, 15 and 20, most of them amid a round.
TEST(DiLoCoBases, SharedOnesLeaveTheirSubspaceWithEveryRenewal) {
  EXPECT_EQ(dimensions_moved_in(run_with("seeded", 1000)), kRank);
  EXPECT_EQ(dimensions_moved_in(run_with("seeded", 5)), 5 * kRank);
}

TEST(DiLoCoBases, SeededOnesAreSharedAndOthersAreNot) {
  for (const char* basis : {"seeded", "gradient"}) {
    HashedRun run(run_with(basis, 5));
    for (int step = 0; step < kSteps; ++step) {
      ASSERT_TRUE(run.step(0.01f));
      const auto same = ElementsAreArray(run.state(0, "galore.basis"));
      if (basis == std::string("seeded")) {
        EXPECT_THAT(run.state(1, "galore.basis"), same) << step;
      } else {
        EXPECT_THAT(run.state(1, "galore.basis"), Not(same)) << step;
      }
    }
  }
}

// It misses the renewals after steps 5, 7 and 10, and begins with the state of a new run.
TEST(DiLoCoBases, AWorkerThatWasAwayDrawsThoseOfTheOthers) {
  HashedRunOptions options = run_with("seeded", 5);
  options.weights_from = {{4, {1, 0}}, {12, {0.5f, 0.5f}}};
  HashedRun run(options);
  for (int step = 0; step < kSteps; ++step) {
    ASSERT_TRUE(run.step(0.01f));
    if (step >= 4 && step < 12) continue;
    EXPECT_THAT(run.state(1, "galore.basis"), ElementsAreArray(run.state(0, "galore.basis")))
        << step;
  }
}

}  // namespace
}  // namespace thinwire::sync
