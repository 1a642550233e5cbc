// Complete runs with the LibTorch backend.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/launch/projected_run.h"
#include "tests/tiny_run.h"
#include "thinwire/launch/train.h"

namespace thinwire::launch {
namespace {

TEST(TrainOnADevice, DiffersByRoundingAloneAndRepeatsBitForBit) {
  const fs::path folder = test_folder();
  prepare_tiny_corpus(folder);
  for (const char* method : {"allreduce", "distro"}) {
    const auto run = [&](const char* device, const char* name) {
      const std::string dir = "run.dir=" + (folder / method / name).string();
      return train(tiny_recipe(folder, {dir, fmt::format("sync.method={}", method),
                                        fmt::format("train.device={}", device)}),
                   {})
          .summary;
    };
    const events::Summary own = run("cpu", "own"), torch = run("torch_cpu", "torch");
    EXPECT_NEAR(torch.val_loss.at("validation"), own.val_loss.at("validation"), 1e-3) << method;
    EXPECT_EQ(run("torch_cpu", "again").digest, torch.digest) << method;
  }
}

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
