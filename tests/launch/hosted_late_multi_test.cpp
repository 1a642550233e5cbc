// Contributions that arrive after their round was closed, where they count (sync.late = "count").
#include <gtest/gtest.h>

#include <atomic>
#include <string>

#include "tests/launch/hosted_case.h"

namespace thinwire::launch {
namespace {

class HostedLate : public HostedCase {
 protected:
  static constexpr double kRowSeconds = 0.03;  // time for a member to join
  static constexpr uint64_t kLate = 2;         // the round for which a member is too late

  // Three members, of whom two suffice, and a fourth that comes later. The coordinator hears of one
  // member's contribution to a round once that is closed, and, if such contributions count, of
  // nobody's to later rounds before that. Returns how many have counted late.
  size_t run_with(const std::string& late) {
    EXPECT_TRUE(prepare(42, kHasty, 3, {"sync.quorum=0.6", "sync.late=" + late})) << why_not_;
    options_ = membership::options_of(recipe_.sync);
    options_.snapshot_every = 5;
    std::atomic<bool> heard = late == "drop";
    HostedRun run(recipe_, folder_, options_);
    run.pace(kRowSeconds);
    for (const int number : {0, 1}) {
      run.start_withholding(number, [&heard](const membership::Offer& offer) {
        return offer.round <= kLate || heard;
      });
    }
    run.start_withholding(2, [&](const membership::Offer& offer) {
      if (offer.round < kLate) return true;
      if (offer.round > kLate) return heard.load();
      if (!run.is_closed(kLate)) return false;
      heard = true;
      return true;
    });
    run.wait_until([](const membership::State& state) { return state.next_round > kLate + 2; });
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
                                                           "streaming_inner", "sparseloco"})),
                         [](const auto& test) { return test.param.name; });
INSTANTIATE_TEST_SUITE_P(Methods, HostedDropped,
                         testing::ValuesIn(variants_named({"diloco_eager", "sparseloco"})),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace thinwire::launch
