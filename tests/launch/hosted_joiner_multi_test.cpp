// Members on many hosts that come late, leave, die and return: the others agree, and so do they.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <vector>

#include "tests/launch/hosted_run.h"
#include "tests/launch/method_variants.h"
#include "tests/tiny_run.h"
#include "thinwire/base/digest.h"

namespace thinwire::launch {
namespace {

using membership::Phase;
using membership::State;

membership::Options options(double timeout_s) {
  membership::Options options;
  options.timeout_s = timeout_s;
  options.snapshot_every = 5;
  return options;
}

constexpr double kPatient = 60;  // nobody is lost, however slow this machine is at the moment
constexpr double kHasty = 8;     // who is silent for two seconds is lost

class HostedMembers : public testing::TestWithParam<Variant> {
 protected:
  void SetUp() override {
    folder_ = test_folder();
    prepare_tiny_corpus(folder_);
    std::vector<std::string> fields = {"eval.every=0", "sync.timeout_s=60", "train.steps=60"};
    const std::string method(GetParam().method->name);
    if (GetParam().method->trains_apart) fields.push_back(method + ".sync_every=6");
    recipe_ = variant_recipe(GetParam(), folder_, fields, 2);
    try {
      member::check_hosted(recipe_);
    } catch (const UsageError& error) {
      GTEST_SKIP() << error.what();
    }
  }
  // Of members that came to the end; all the same.
  void expect_agreement(HostedRun& run, const std::vector<int>& members) const {
    std::vector<uint64_t> digests;
    for (const int number : members) {
      const member::MemberResult result = run.wait(number);
      EXPECT_EQ(result.outcome, member::MemberOutcome::kFinished) << "member " << number;
      EXPECT_EQ(result.steps, recipe_.train.steps);
      digests.push_back(result.digest);
    }
    for (const uint64_t digest : digests) EXPECT_EQ(to_hex(digest), to_hex(digests.front()));
  }
  static auto round_at_least(uint64_t round) {
    return [round](const State& state) { return state.next_round >= round || state.finished; };
  }
  static size_t active(const State& state) {
    return static_cast<size_t>(
        std::ranges::count(state.members, Phase::kActive, &membership::Member::phase));
  }

  fs::path folder_;
  config::Recipe recipe_;
};

TEST_P(HostedMembers, AJoinerEndsWithTheBitsOfTheOthers) {
  HostedRun run(recipe_, folder_, options(kPatient));
  for (const int number : {0, 1}) run.start(number);
  run.wait_until(round_at_least(2));
  run.start(2);
  expect_agreement(run, {0, 1, 2});
}

TEST_P(HostedMembers, OneThatLeavesAndReturnsEndsWithTheBitsOfTheOthers) {
  HostedRun run(recipe_, folder_, options(kPatient));
  for (const int number : {0, 1, 2}) run.start(number);
  run.wait_until(round_at_least(2));
  EXPECT_NE(run.leave(2).outcome, member::MemberOutcome::kRefused);
  run.start(2);
  expect_agreement(run, {0, 1, 2});
}

TEST_P(HostedMembers, GoOnWithoutOneThatDies) {
  HostedRun run(recipe_, folder_, options(kHasty));
  for (const int number : {0, 1, 2}) run.start(number);
  run.wait_until(round_at_least(2));
  run.kill(2);
  expect_agreement(run, {0, 1});
}

// Of a method whose rounds are many, so that it has time to.
class HostedTakingPart : public HostedMembers {};

TEST_P(HostedTakingPart, AJoinerTrainsWithTheOthersOnceItHasCaughtUp) {
  HostedRun run(recipe_, folder_, options(kPatient));
  for (const int number : {0, 1}) run.start(number);
  run.wait_until(round_at_least(2));
  EXPECT_EQ(run.largest_roster(), 2u);
  run.start(2);
  run.wait_until([](const State& state) { return active(state) == 3 || state.finished; });
  expect_agreement(run, {0, 1, 2});
  EXPECT_EQ(run.largest_roster(), 3u);
}

TEST_P(HostedTakingPart, AJoinerBeginsWithASnapshotOfTheRun) {
  HostedRun run(recipe_, folder_, options(kPatient));
  for (const int number : {0, 1}) run.start(number);
  run.wait_until([](const State& state) { return state.snapshots.size() > 1 || state.finished; });
  EXPECT_GT(run.newest_snapshot(), 0u);
  run.start(2);
  expect_agreement(run, {0, 1, 2});
}

std::vector<Variant> quick_variants() {
  std::vector<Variant> variants = all_variants();
  std::erase_if(variants, [](const Variant& variant) {
    return variant.name != "allreduce" && variant.name != "distro" &&
           variant.name != "distro_adamw_overlap";
  });
  for (Variant& variant : variants) variant.overrides.emplace_back("train.steps=150");
  return variants;
}

INSTANTIATE_TEST_SUITE_P(Methods, HostedTakingPart, testing::ValuesIn(quick_variants()),
                         [](const auto& test) { return test.param.name; });
INSTANTIATE_TEST_SUITE_P(Methods, HostedMembers, testing::ValuesIn(all_variants()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace thinwire::launch
