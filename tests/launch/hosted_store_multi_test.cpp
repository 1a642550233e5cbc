// A run on many hosts whose store loses some of what it had.
#include <gtest/gtest.h>

#include "tests/launch/hosted_case.h"
#include "thinwire/serve/coordinator_host.h"

namespace thinwire::launch {
namespace {

using membership::State;

class HostedStore : public HostedCase {};

TEST_P(HostedStore, TheHostPutsBackTheRecordsThatItLost) {
  ASSERT_TRUE(prepare(40, 120)) << why_not_;  // what was asked for is asked again after 3 s
  HostedRun run(recipe_, folder_, options_);
  run.hold_at(8);
  for (const int number : {0, 1}) run.start(number);
  run.wait_until([](const State& state) { return state.next_round > 4; });
  run.network().lose_records(membership::kLedgerStream, 3);
  run.release();
  expect_agreement(run, {0, 1});
}

// There are no snapshots, so a joiner needs all of them.
TEST_P(HostedStore, MembersPutBackThePayloadsThatItLost) {
  ASSERT_TRUE(prepare(60)) << why_not_;
  options_.snapshot_every = 0;
  HostedRun run(recipe_, folder_, options_);
  run.hold_at(8);
  for (const int number : {0, 1}) run.start(number);
  run.wait_until([](const State& state) { return state.next_round > 4; });
  run.lose_payloads();
  run.start(2);
  run.wait_until_caught_up(2);
  run.release();
  expect_agreement(run, {0, 1, 2});
}

INSTANTIATE_TEST_SUITE_P(Methods, HostedStore, testing::ValuesIn(variants_named({"distro"})),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace thinwire::launch
