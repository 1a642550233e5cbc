// Runs whose gradients are projected in the backward pass.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/launch/copied_run.h"
#include "tests/launch/projected_run.h"
#include "thinwire/method/architectures/architecture.h"
#include "thinwire/method/registry.h"

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

// Bases agree because the products from which they follow are averaged; so are the projections.
TEST_F(ProjectedRuns, WorkersThatAverageGradientsShareTheBasesOfTheirMean) {
  const std::vector<std::string> two = {"train.workers=2", "allreduce.wire=fp32"};
  for (const std::vector<std::string>& optimizer : optimizers_) {
    const double whole = loss(run(optimizer + two));
    EXPECT_NEAR(loss(run(optimizer + projected_ + two)), whole, 1e-4);
    EXPECT_NEAR(loss(run(optimizer + projected_)), whole, 1e-4);  // of one worker
  }
}

TEST_F(ProjectedRuns, OfSeveralWorkersHaveTheSameBitsDuringAndAfterTheBackwardPass) {
  const std::vector<std::string> fields = galore_ + projected_;
  for (const char* tied : {"model.tied=false", "model.tied=true"}) {
    for (const char* clip : {"optim.clip_by=previous", "optim.clip_by=tensor"}) {
      const std::vector<std::string> all =
          fields + std::vector<std::string>{"train.workers=3", "optim.clip=0.3", tied, clip};
      const std::string step = run(all).digest;
      EXPECT_EQ(run(all + std::vector<std::string>{"train.update=layer"}).digest, step);
    }
  }
}

TEST_F(ProjectedRuns, SendTheBytesThatArePredicted) {
  for (const std::vector<std::string>& optimizer : optimizers_) {
    for (const char* update : {"train.update=step", "train.update=layer"}) {
      for (const char* wire : {"fp32", "bf16", "fp4"}) {
        const std::vector<std::string> fields =
            optimizer + projected_ +
            std::vector<std::string>{"train.workers=2", update, "model.vocab=258",
                                     fmt::format("allreduce.wire={}", wire)};
        const config::Recipe used = recipe(fields);
        const events::Summary summary = train(used, {}).summary;
        const auto tensors = method::tensors_of(used);
        const method::Traffic predicted =
            method::find_method("allreduce").traffic(used, tensors, 2);
        EXPECT_DOUBLE_EQ(summary.bytes_sent_per_worker_step, predicted.sent_bytes);
        EXPECT_DOUBLE_EQ(summary.bytes_received_per_worker_step, predicted.received_bytes);
      }
    }
  }
}

TEST_F(ProjectedRuns, ResumeBitForBitWithSeveralWorkers) {
  const std::vector<std::string> fields =
      galore_ + projected_ +
      std::vector<std::string>{"train.workers=2", "train.microbatch=1", "galore.moments=rotate",
                               "checkpoint.every=1", "checkpoint.keep=100"};
  const std::string whole = run(fields).digest;
  const fs::path first = folder_ / std::to_string(runs_);
  for (const int64_t step : {1, 3, 4, 5, 8}) {
    const fs::path copy = folder_ / fmt::format("from{}", step);
    copy_run(first, copy, step);
    EXPECT_EQ(run(fields + std::vector<std::string>{"run.dir=" + copy.string()}).digest, whole)
        << "resumed after step " << step;
  }
}

}  // namespace
}  // namespace thinwire::launch
