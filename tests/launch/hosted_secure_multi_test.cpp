// Secure sums among members on many hosts: they train as without, and go on without those who die,
// whenever that is.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/launch/hosted_run.h"
#include "tests/tiny_run.h"
#include "thinwire/base/digest.h"

namespace thinwire::launch {
namespace {

class HostedSecure : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = test_folder();
    prepare_tiny_corpus(folder_);
  }

  config::Recipe recipe_of(bool secure, int64_t steps, double timeout_s = 600,
                           const std::string& sums = "auto") {
    options_.timeout_s = timeout_s;
    options_.snapshot_every = 12;
    return tiny_recipe(
        folder_,
        {"sync.method=diloco", "diloco.sync_every=6", "diloco.wire=fp32", "data.own=true",
         "train.workers=3", "train.batch=6", "eval.every=0", "sync.sums=" + sums,
         "sync.timeout_s=" + std::to_string(timeout_s), "train.steps=" + std::to_string(steps),
         std::string("privacy.secure_sums=") + (secure ? "true" : "false")});
  }
  // Of members that have finished, the loss, where all have the same weights.
  static double expect_agreement(HostedRun& run, const std::vector<int>& members, int64_t steps) {
    std::vector<member::MemberResult> results;
    for (const int number : members) {
      results.push_back(run.wait(number));
      EXPECT_EQ(results.back().outcome, member::MemberOutcome::kFinished) << results.back().why;
      EXPECT_EQ(results.back().steps, steps);
      EXPECT_EQ(to_hex(results.back().digest), to_hex(results.front().digest));
    }
    double sum = 0;
    for (const member::MemberResult& one : results) sum += one.summary.val_loss.begin()->second;
    return sum / static_cast<double>(results.size());
  }

  fs::path folder_;
  membership::Options options_;
};

TEST_F(HostedSecure, TrainsAsSumsThatAreSeenDo) {
  double losses[2] = {};
  uint64_t rounds[2] = {};
  for (const bool secure : {false, true}) {
    for (const int number : {0, 1, 2}) {
      fs::remove_all(folder_ / ("member" + std::to_string(number)));
    }
    HostedRun run(recipe_of(secure, 18), folder_, options_);
    for (const int number : {0, 1, 2}) run.start(number);
    losses[secure ? 1 : 0] = expect_agreement(run, {0, 1, 2}, 18);
    rounds[secure ? 1 : 0] = run.plan().rounds();
  }
  EXPECT_EQ(rounds[0], 3u);
  EXPECT_EQ(rounds[1], 12u);
  EXPECT_NEAR(losses[0], losses[1], 1e-4);
}

TEST_F(HostedSecure, TheCoordinatorFormsSumsThatItDoesNotSee) {
  double losses[2] = {};
  for (const bool coordinator : {false, true}) {
    for (const int number : {0, 1, 2}) {
      fs::remove_all(folder_ / ("member" + std::to_string(number)));
    }
    HostedRun run(recipe_of(true, 18, 600, coordinator ? "coordinator" : "members"), folder_,
                  options_);
    for (const int number : {0, 1, 2}) run.start(number);
    losses[coordinator ? 1 : 0] = expect_agreement(run, {0, 1, 2}, 18);
  }
  EXPECT_EQ(losses[0], losses[1]) << "the same bits";
}

// Whose secrets are gone with its process must hide nothing with others: the weights would be
// random numbers, which all agree on.
TEST_F(HostedSecure, OneThatReturnsWhereverItDiedEndsWithTheWeightsOfTheOthers) {
  double loss = 0;
  {
    HostedRun run(recipe_of(true, 24), folder_, options_);
    for (const int number : {0, 1, 2}) run.start(number);
    loss = expect_agreement(run, {0, 1, 2}, 24);
  }
  for (const int last_request : {3, 8, 10, 12, 14, 16, 18, 20, 23, 26, 30, 36, 42}) {
    SCOPED_TRACE("it dies at request " + std::to_string(last_request));
    for (const int number : {0, 1, 2, 3}) {
      fs::remove_all(folder_ / ("member" + std::to_string(number)));
    }
    HostedRun run(recipe_of(true, 24, 60), folder_, options_);
    run.pace(0.002);
    for (const int number : {0, 1, 2}) run.start(number);
    run.start_dying(3, last_request);
    try {
      (void)run.wait(3);
    } catch (const Error&) {
    }
    run.start(3);
    EXPECT_NEAR(expect_agreement(run, {0, 1, 2, 3}, 24), loss, 0.5);
  }
}

TEST_F(HostedSecure, AJoinerEndsWithTheWeightsOfTheOthers) {
  HostedRun run(recipe_of(true, 36), folder_, options_);
  run.hold_at(14);
  for (const int number : {0, 1, 2}) run.start(number);
  run.wait_until([](const membership::State& state) { return state.next_round > 4; });
  run.start(3);
  run.wait_until([](const membership::State& state) { return state.members.size() == 4; });
  run.release();
  expect_agreement(run, {0, 1, 2, 3}, 36);
}

TEST_F(HostedSecure, TheOthersAgreeWhereverOneDies) {
  for (const int last_request : {2, 7, 9, 11, 13, 15, 17, 19, 22, 25, 30}) {
    SCOPED_TRACE("it dies at request " + std::to_string(last_request));
    for (const int number : {0, 1, 2, 3}) {
      fs::remove_all(folder_ / ("member" + std::to_string(number)));
    }
    HostedRun run(recipe_of(true, 24, 8), folder_, options_);
    for (const int number : {0, 1, 2}) run.start(number);
    run.start_dying(3, last_request);
    expect_agreement(run, {0, 1, 2}, 24);
  }
}

}  // namespace
}  // namespace thinwire::launch
