// What every method promises where its members are on many hosts: the bits of a run in one process.
#include <gtest/gtest.h>

#include "tests/launch/hosted_case.h"
#include "thinwire/base/digest.h"
#include "thinwire/launch/train.h"

namespace thinwire::launch {
namespace {

class HostedContract : public HostedCase {};

TEST_P(HostedContract, GivesTheBitsOfARunInOneProcess) {
  if (!prepare(12)) GTEST_SKIP() << why_not_;
  const TrainResult expected = train(recipe_, {});
  HostedRun run(recipe_, folder_, options_);
  for (const int number : {0, 1}) run.start(number);
  for (const int number : {0, 1}) {
    const member::MemberResult result = run.wait(number);
    EXPECT_EQ(result.outcome, member::MemberOutcome::kFinished);
    EXPECT_EQ(result.steps, recipe_.train.steps);
    EXPECT_EQ(to_hex(result.digest), expected.summary.digest) << "member " << number;
  }
  // So that another coordinator does not await them.
  run.wait_until(
      [](const membership::State& state) { return count(state, membership::Phase::kLeft) == 2; });
  EXPECT_TRUE(run.host().over());
  EXPECT_EQ(to_hex(*run.host().final_digest()), expected.summary.digest);
}

TEST_P(HostedContract, OneMemberGivesTheBitsOfOneWorker) {
  if (!prepare(12, kPatient, 1)) GTEST_SKIP() << why_not_;
  const TrainResult expected = train(recipe_, {});
  HostedRun run(recipe_, folder_, options_);
  run.start(0);
  const member::MemberResult result = run.wait(0);
  EXPECT_EQ(result.outcome, member::MemberOutcome::kFinished);
  EXPECT_EQ(to_hex(result.digest), expected.summary.digest);
  EXPECT_EQ(result.summary.val_loss, expected.summary.val_loss);
  run.wait_until_over();
}

INSTANTIATE_TEST_SUITE_P(Methods, HostedContract, testing::ValuesIn(all_variants()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace thinwire::launch
