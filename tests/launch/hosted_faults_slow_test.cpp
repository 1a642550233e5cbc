// Members on many hosts that die at any request, and a network that fails in every way: the others
// agree.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/launch/hosted_case.h"

namespace thinwire::launch {
namespace {

class HostedFaults : public HostedCase {};

TEST_P(HostedFaults, TheOthersAgreeWhereverOneDies) {
  ASSERT_TRUE(prepare(24, kHasty)) << why_not_;
  for (const int last_request : {1, 2, 3, 4, 6, 9, 13, 18, 25}) {
    SCOPED_TRACE("it dies at request " + std::to_string(last_request));
    for (const int number : {0, 1, 2}) {
      fs::remove_all(folder_ / ("member" + std::to_string(number)));
    }
    HostedRun run(recipe_, folder_, options_);
    for (const int number : {0, 1}) run.start(number);
    run.start_dying(2, last_request);
    expect_agreement(run, {0, 1});
  }
}

TEST_P(HostedFaults, AllAgreeOverANetworkThatFails) {
  ASSERT_TRUE(prepare(24, kHasty)) << why_not_;
  transport::MemoryOptions network;
  network.timeout_s = 1;
  network.faults = {.statement_delay_s = 0.002,
                    .lose = 0.05,
                    .duplicate = 0.05,
                    .alter = 0.05,
                    .disconnect = 0.005,
                    .reconnect_s = 0.05};
  HostedRun run(recipe_, folder_, options_, network);
  for (const int number : {0, 1, 2}) run.start(number);
  expect_agreement(run, {0, 1, 2});
}

INSTANTIATE_TEST_SUITE_P(Methods, HostedFaults,
                         testing::ValuesIn(variants_named({"allreduce", "distro", "diloco_eager"})),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace thinwire::launch
