// Contributions that arrive after their round was closed, where they count (sync.late = "count").
#include <gtest/gtest.h>

#include "tests/launch/hosted_case.h"

namespace thinwire::launch {
namespace {

class HostedLate : public HostedCase {
 protected:
  // Of two members, and of a third that is too late for a round of theirs, but not for the next.
  static constexpr double kRowSeconds = 0.03;
  static constexpr double kSlowRowSeconds = 0.06;

  // Three members, of whom two suffice, and a fourth that comes later; the number of contributions
  // that counted late.
  size_t run_with(const char* late) {
    EXPECT_TRUE(prepare(42, kHasty, 3, {"sync.quorum=0.6", std::string("sync.late=") + late}))
        << why_not_;
    options_ = membership::options_of(recipe_.sync);
    options_.snapshot_every = 5;
    HostedRun run(recipe_, folder_, options_);
    run.pace(kRowSeconds);
    for (const int number : {0, 1}) run.start(number);
    run.pace(kSlowRowSeconds);
    run.start(2);
    run.wait_until([](const membership::State& state) { return state.next_round > 4; });
    run.pace(kRowSeconds);
    run.start(3);
    expect_agreement(run, {0, 1, 2, 3});
    return run.counted_late();
  }
};

TEST_P(HostedLate, CountInALaterSumOnEveryReplica) { EXPECT_GT(run_with("count"), 0u); }

using HostedDropped = HostedLate;
TEST_P(HostedDropped, CountNowhere) { EXPECT_EQ(run_with("drop"), 0u); }

INSTANTIATE_TEST_SUITE_P(Methods, HostedLate,
                         testing::ValuesIn(variants_named({"local_sgd_momentum", "diloco_delayed",
                                                           "diloco_eager", "diloco_bf16_feedback",
                                                           "streaming_inner"})),
                         [](const auto& test) { return test.param.name; });
INSTANTIATE_TEST_SUITE_P(Methods, HostedDropped,
                         testing::ValuesIn(variants_named({"diloco_eager"})),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace thinwire::launch
