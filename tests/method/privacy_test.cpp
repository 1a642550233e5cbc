#include "thinwire/method/privacy/privacy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/errors.h"
#include "thinwire/method/architectures/architecture.h"
#include "thinwire/method/operations.h"
#include "thinwire/method/registry.h"

namespace thinwire::method {
namespace {

using testing::HasSubstr;

config::Recipe recipe(std::vector<std::string> fields) {
  fields.insert(fields.end(), {"data.own=true", "model.vocab=64"});
  return load_recipe("", fields);
}

std::string refusal(const std::vector<std::string>& fields) {
  return tests::error_of([&] { load_recipe("", fields); });
}

TEST(Privacy, PlannedSumsAreTheOperationsOfTheRun) {
  for (const std::vector<std::string>& fields :
       {std::vector<std::string>{"sync.method=diloco", "diloco.sync_every=6", "train.steps=45"},
        {"sync.method=local_sgd", "local_sgd.sync_every=5", "train.steps=45"},
        {"sync.method=streaming", "streaming.sync_every=8", "train.steps=45"},
        {"sync.method=streaming", "streaming.slices=3", "train.steps=100"}}) {
    const config::Recipe one = recipe(fields);
    const std::vector<TensorSpec> tensors = tensors_of(one);
    const OperationsAfter after = operations_of(one, tensors, RunKind::kHosted);
    uint64_t sums = 0;
    for (int64_t step = 0; step < one.train.steps; ++step) sums += after(step).size();
    EXPECT_EQ(planned_sums(one), sums) << fields.front() << " " << fields[1];
  }
}

TEST(Privacy, SumsThatAreStillToComeFollowTheStepsBefore) {
  const config::Recipe streaming =
      recipe({"sync.method=streaming", "streaming.sync_every=12", "streaming.fragment_layers=1"});
  const uint64_t all = planned_sums(streaming);
  EXPECT_LT(planned_sums(streaming, 5), all);
  EXPECT_GT(planned_sums(streaming, 5), 0u);
  EXPECT_EQ(planned_sums(streaming, streaming.train.steps), 0u);
}

TEST(Privacy, IsSaidOfTheWholeRunWhereThereIsNoise) {
  EXPECT_EQ(planned_privacy(recipe({"sync.method=diloco"})), "");
  EXPECT_EQ(
      planned_privacy(recipe({"sync.method=diloco", "privacy.clip=1", "privacy.noise=4",
                              "train.steps=100", "diloco.sync_every=2"})),
      "what a member that takes part in all of the run tells of its text is bounded, after 50 "
      "contributions with noise: "
      "epsilon 9.235 at delta 1e-05");
}

TEST(Privacy, WhatItNeedsIsSaid) {
  EXPECT_THAT(refusal({"data.own=true", "sync.method=diloco", "privacy.noise=1"}),
              HasSubstr("[privacy] noise = 1 needs clip > 0, got 0"));
  EXPECT_THAT(refusal({"data.own=true", "sync.method=diloco", "privacy.sampling=0.5"}),
              HasSubstr("[privacy] sampling = 0.5 needs noise > 0"));
  EXPECT_THAT(refusal({"data.own=true", "sync.method=diloco", "privacy.clip=1e-7"}),
              HasSubstr("[privacy] clip must be 0 or at least 1e-06, got 1e-07"));
  EXPECT_THAT(
      refusal({"data.own=true", "sync.method=diloco", "privacy.clip=1", "privacy.noise=0.001"}),
      HasSubstr("[privacy] noise must be 0 or at least 0.01, got 0.001"));
  EXPECT_THAT(refusal({"data.own=true", "sync.method=diloco", "privacy.clip=1", "privacy.noise=1",
                       "privacy.delta=0.1"}),
              HasSubstr("[privacy] delta"));
  EXPECT_THAT(refusal({"sync.method=diloco", "privacy.clip=1"}),
              HasSubstr("[privacy] clip = 1.0 needs [data] own = true, got false"));
  EXPECT_THAT(refusal({"data.own=true", "sync.method=distro", "privacy.clip=1"}),
              HasSubstr("(local_sgd, diloco, streaming), got [sync] method = \"distro\""));
  EXPECT_THAT(refusal({"data.own=true", "sync.method=diloco", "sync.shares=speed", "privacy.clip=1",
                       "privacy.noise=1"}),
              HasSubstr("[privacy] noise = 1.0 needs [sync] shares = \"equal\" or \"own\""));
}

TEST(Privacy, MembersWithAModelOfTheirOwnHaveRowsOfTheirOwn) {
  const std::vector<std::string> fields = {"model.architecture=external",
                                           "external.tensors=[\"a 1\"]",
                                           "train.sequence=1",
                                           "sync.method=diloco",
                                           "privacy.clip=1",
                                           "privacy.noise=4"};
  EXPECT_NO_THROW(load_recipe("", fields));
}

}  // namespace
}  // namespace thinwire::method
