// Sites of several ranks as members of a run on many hosts (docs/mpi.md).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/launch/hosted_case.h"
#include "tests/launch/hosted_run.h"
#include "thinwire/base/error.h"
#include "thinwire/method/combinations.h"

namespace thinwire::launch {
namespace {

constexpr int kRanks = 3;

class HostedSite : public HostedCase {
 protected:
  // Whether its ranks can compute gradients together.
  bool prepare_site(int64_t steps) {
    if (!prepare(steps, kPatient, 2, {"train.batch=8"})) return false;
    try {
      method::check_command(recipe_, method::Command::kSite);
    } catch (const UsageError& error) {
      why_not_ = error.what();
    }
    const bool projects = GetParam().name.ends_with("_galore");
    const bool layers = GetParam().name.find("_layer") != std::string::npos;
    EXPECT_EQ(!why_not_.empty(), projects || layers) << why_not_;
    return why_not_.empty();
  }
};

// One of the first two members is a site, and so is one that joins later.
TEST_P(HostedSite, AgreesWithMembersThatAreAlone) {
  if (!prepare_site(42)) GTEST_SKIP() << why_not_;
  HostedRun run(recipe_, folder_, options_);
  run.hold_at(8);
  run.start(0);
  run.start_site(1, kRanks);
  run.wait_until(begun());
  run.start_site(2, kRanks);
  run.wait_until(has_members(3));
  run.release();
  expect_agreement(run, {0, 1, 2});
}

INSTANTIATE_TEST_SUITE_P(Methods, HostedSite, testing::ValuesIn(all_variants()),
                         [](const auto& test) { return test.param.name; });

class HostedSiteOfDistro : public HostedSite {};

// It comes back as a single machine, and as a site again.
TEST_P(HostedSiteOfDistro, MayHaveOtherRanksWhenItReturns) {
  ASSERT_TRUE(prepare_site(60)) << why_not_;
  HostedRun run(recipe_, folder_, options_);
  run.hold_at(20);
  run.start(0);
  run.start_site(1, 2);
  run.wait_until([](const membership::State& state) { return state.next_round > 4; });
  EXPECT_EQ(run.leave(1).outcome, member::MemberOutcome::kLeft);
  run.start(1);
  run.wait_until_caught_up(1);
  EXPECT_EQ(run.leave(1).outcome, member::MemberOutcome::kLeft);
  run.start_site(1, kRanks);
  run.wait_until_caught_up(1);
  run.release();
  expect_agreement(run, {0, 1});
}

TEST_P(HostedSiteOfDistro, WhatItCannotShareIsRefused) {
  ASSERT_TRUE(prepare(12, kPatient, 2, {"train.offload=true"})) << why_not_;
  HostedRun run(recipe_, folder_, options_);
  run.start_site(0, 2);
  EXPECT_THROW(run.wait(0), UsageError);
}

INSTANTIATE_TEST_SUITE_P(Methods, HostedSiteOfDistro, testing::ValuesIn(variants_named({"distro"})),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace thinwire::launch
