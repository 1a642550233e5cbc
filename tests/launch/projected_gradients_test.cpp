// Runs whose gradients are projected in the backward pass.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/launch/copied_run.h"
#include "tests/launch/projected_run.h"

namespace thinwire::launch {
namespace {

TEST_F(ProjectedRuns, AreThoseWithWholeGradientsToRounding) {
  for (const std::vector<std::string>& optimizer : optimizers_) {
    const double whole = loss(run(optimizer));
    EXPECT_NEAR(loss(run(optimizer + projected_)), whole, 1e-4);
    EXPECT_NEAR(
        loss(run(optimizer + projected_ + std::vector<std::string>{"train.precision=bf16"})), whole,
        0.02);
  }
}

// In one pass the first bases come from the same gradient, too.
TEST_F(ProjectedRuns, UpdatesDuringTheBackwardPassHaveTheBitsOfThoseAfterIt) {
  const std::vector<std::string> fields =
      galore_ + std::vector<std::string>{"optim.gradients=projected"};
  for (const auto& clipping : std::vector<std::vector<std::string>>{
           {}, {"optim.clip=0.3", "optim.clip_by=tensor"}, {"optim.clip=0.3"}}) {
    for (const char* tied : {"model.tied=false", "model.tied=true"}) {
      const std::vector<std::string> all = fields + clipping + std::vector<std::string>{tied};
      const std::string step = run(all).digest;
      EXPECT_EQ(run(all + std::vector<std::string>{"train.update=layer"}).digest, step);
    }
  }
}

// Bases exist when the batch begins to be taken in passes; renewals are among the steps after that.
TEST_F(ProjectedRuns, ABatchInSeveralPassesIsTheBatchInOneToRounding) {
  for (const char* update : {"train.update=step", "train.update=layer"}) {
    const std::vector<std::string> fields =
        galore_ + std::vector<std::string>{"optim.gradients=projected", update,
                                           "checkpoint.every=1", "checkpoint.keep=100"};
    const double whole = loss(run(fields));
    const fs::path copy = folder_ / (std::string("copy_") + update);
    copy_run(folder_ / std::to_string(runs_), copy, 2);
    std::vector<std::string> passes = fields + std::vector<std::string>{"train.microbatch=1"};
    passes.push_back("run.dir=" + copy.string());
    EXPECT_NEAR(loss(run(passes)), whole, 1e-5) << update;
  }
}

TEST_F(ProjectedRuns, ResumeBitForBitAtEveryStepAroundRenewals) {
  const std::vector<std::string> fields =
      galore_ + std::vector<std::string>{"optim.gradients=projected", "train.microbatch=2",
                                         "checkpoint.every=1", "checkpoint.keep=100"};
  const std::string whole = run(fields).digest;
  const fs::path first = folder_ / std::to_string(runs_);
  for (int64_t step = 1; step < 12; ++step) {
    const fs::path copy = folder_ / fmt::format("from{}", step);
    copy_run(first, copy, step);
    EXPECT_EQ(run(fields + std::vector<std::string>{"run.dir=" + copy.string()}).digest, whole)
        << "resumed after step " << step;
  }
}

TEST_F(ProjectedRuns, ARunWithWholeGradientsMayGoOnWithProjectedOnes) {
  const std::vector<std::string> fields =
      galore_ + std::vector<std::string>{"checkpoint.every=1", "checkpoint.keep=100"};
  const double whole = loss(run(fields));
  const fs::path copy = folder_ / "copy";
  copy_run(folder_ / "1", copy, 5);
  EXPECT_NEAR(loss(run(fields + std::vector<std::string>{"optim.gradients=projected",
                                                         "run.dir=" + copy.string()})),
              whole, 1e-4);
}

TEST_F(ProjectedRuns, WorkersThatTrainApartHaveTheirOwnBases) {
  const std::vector<std::string> fields =
      galore_ + std::vector<std::string>{"train.workers=2", "sync.method=diloco",
                                         "diloco.sync_every=4", "optim.clip=1"};
  const double whole = loss(run(fields));
  // The norm by which gradients are clipped is a smaller one.
  EXPECT_NEAR(loss(run(fields + std::vector<std::string>{"optim.gradients=projected"})), whole,
              0.02);
}

}  // namespace
}  // namespace thinwire::launch
