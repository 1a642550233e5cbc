// Complete runs with the LibTorch backend.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/launch/device_run_case.h"
#include "tests/launch/projected_run.h"
#include "tests/tiny_run.h"
#include "thinwire/launch/train.h"

namespace thinwire::launch {
namespace {

TEST(TrainOnADevice, DiffersByRoundingAloneAndRepeatsBitForBit) { expect_same_runs("torch_cpu"); }

TEST(TrainOnADevice, UpdatesDuringTheBackwardPassHaveTheSameBits) {
  const fs::path folder = test_folder();
  prepare_tiny_corpus(folder);
  for (const char* precision : {"fp32", "bf16"}) {
    const auto digest = [&](const char* update) {
      const std::string dir = "run.dir=" + (folder / precision / update).string();
      return train(tiny_recipe(folder, {dir, "train.device=torch_cpu", "optim.clip=0",
                                        fmt::format("train.precision={}", precision),
                                        fmt::format("train.update={}", update)}),
                   {})
          .summary.digest;
    };
    EXPECT_EQ(digest("layer"), digest("step")) << precision;
  }
}

TEST(TrainOnADevice, StepsOfMuonBetweenExchangesAreTheHostsToRounding) {
  expect_near_muon_runs("torch_cpu");
}

TEST_F(ProjectedRuns, WithLibTorchAreThoseWithWholeGradientsToRounding) {
  for (const std::vector<std::string>& optimizer : optimizers_) {
    const double whole = loss(run(optimizer));
    EXPECT_NEAR(
        loss(run(optimizer + projected_ + std::vector<std::string>{"train.device=torch_cpu"})),
        whole, 1e-4);
  }
}

}  // namespace
}  // namespace thinwire::launch
