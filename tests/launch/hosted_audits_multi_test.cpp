// An auditor names members that do not compute what they are assigned (docs/audits.md).
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/launch/hosted_case.h"
#include "tests/launch/hosted_run.h"
#include "tests/tiny_run.h"
#include "thinwire/base/digest.h"

namespace thinwire::launch {
namespace {

using membership::Phase;
using testing::Contains;
using testing::HasSubstr;

constexpr int kMembers = 4;
constexpr int kAuditor = 50;

struct Case {
  std::string method;
  int64_t steps;  // of a run without an offender
  int64_t many;   // of one with an offender, which is excluded before
  std::vector<std::string> fields = {};
};

class HostedAudits : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    folder_ = test_folder();
    prepare_tiny_corpus(folder_, 4000, many_words());
  }

  // With a few words all rows are alike, and what helps one helps the others.
  static std::vector<std::string> many_words() {
    Rng rng(2, 2);
    std::vector<std::string> words(3000);
    for (std::string& word : words) {
      for (uint64_t letters = 3 + rng.below(6); letters > 0; --letters) {
        word += static_cast<char>('a' + rng.below(26));
      }
    }
    return words;
  }

  std::unique_ptr<HostedRun> make(int64_t steps) {
    std::vector<std::string> fields = {"sync.method=" + GetParam().method,
                                       "sync.timeout_s=600",
                                       "train.workers=4",
                                       "train.batch=16",
                                       "train.steps=" + std::to_string(steps),
                                       "eval.every=0",
                                       "schedule.warmup=5"};
    fields.insert(fields.end(), GetParam().fields.begin(), GetParam().fields.end());
    membership::Options options;
    options.timeout_s = 600;
    options.snapshot_every = 20;
    auto run = std::make_unique<HostedRun>(tiny_recipe(folder_, fields), folder_, options);
    run->admit_auditor(kAuditor);
    return run;
  }

  // The means of the effects that auditors found, by member.
  static std::map<int, double> mean_effects(const std::vector<membership::Audit>& audits) {
    std::map<int, std::vector<double>> effects;
    for (const membership::Audit& audit : audits) effects[audit.member].push_back(audit.effect);
    std::map<int, double> means;
    for (const auto& [member, all] : effects) {
      double sum = 0, squares = 0;
      for (const double effect : all) sum += effect;
      const double mean = sum / static_cast<double>(all.size());
      for (const double effect : all) squares += (effect - mean) * (effect - mean);
      std::cout << fmt::format(
          "member {}: {} audits, effect {:.4f}, deviation {:.4f}\n", member, all.size(), mean,
          std::sqrt(squares / static_cast<double>(std::max<size_t>(all.size(), 2) - 1)));
      means[member] = mean;
    }
    return means;
  }

  fs::path folder_;
};

TEST_P(HostedAudits, FindTheEffectOfHonestMembers) {
  const auto run = make(GetParam().steps);
  run->start_auditor(kAuditor);
  for (int number = 0; number < kMembers; ++number) run->start(number);
  const uint64_t digest = run->wait(0).digest;
  const member::MemberResult audited = run->wait(kAuditor);
  EXPECT_EQ(audited.outcome, member::MemberOutcome::kFinished) << audited.why;
  EXPECT_EQ(to_hex(audited.digest), to_hex(digest)) << "the auditor has the run's weights";
  const auto audits = run->audits();
  ASSERT_GE(audits.size(), 10u);
  mean_effects(audits);
  for (const membership::Audit& audit : audits) {
    EXPECT_EQ(audit.error.has_value(), GetParam().method == "allreduce");
    EXPECT_EQ(audit.error.value_or(0), 0) << "the same machine, the same bits";
  }
  for (const membership::Member& member : run->host().state().members) {
    EXPECT_EQ(member.offences(), 0u);
  }
  EXPECT_EQ(run->host().state().members.size(), static_cast<size_t>(kMembers))
      << "an auditor is no member";
}

TEST_P(HostedAudits, ExcludeAMemberThatTrainsOnOtherRows) {
  const auto run = make(GetParam().many);
  run->start_auditor(kAuditor);
  for (int number = 0; number < kMembers - 1; ++number) run->start(number);
  run->start_straying(kMembers - 1);
  const member::MemberResult strayed = run->wait(kMembers - 1);
  EXPECT_EQ(strayed.outcome, member::MemberOutcome::kRefused);
  run->wait_until([](const membership::State& state) {
    return std::ranges::count(state.members, Phase::kExcluded, &membership::Member::phase) > 0;
  });
  const membership::State state = run->host().state();
  const int offender = run->id_of(kMembers - 1);
  for (size_t id = 0; id < state.members.size(); ++id) {
    const bool strays = static_cast<int>(id) == offender;
    EXPECT_EQ(state.members[id].phase == Phase::kExcluded, strays) << id;
    EXPECT_EQ(state.members[id].offences(), strays ? 3u : 0u) << id;
  }
  std::cout << "excluded in round " << state.next_round << "\n";
  mean_effects(run->audits());
  EXPECT_THAT(
      run->messages(),
      Contains(HasSubstr(fmt::format("member {} does not compute what it is assigned: {}", offender,
                                     GetParam().method == "allreduce" ? "its" : "what"))));
}

INSTANTIATE_TEST_SUITE_P(Methods, HostedAudits,
                         testing::Values(Case{"allreduce", 30, 400}, Case{"distro", 60, 3000},
                                         Case{"diloco", 240, 6000, {"diloco.sync_every=8"}},
                                         Case{
                                             "sparseloco", 240, 6000, {"sparseloco.sync_every=4"}}),
                         [](const auto& one) { return one.param.method; });

class HostedAuditors : public HostedAudits {};

TEST_P(HostedAuditors, ThatNobodyAdmittedAreRefused) {
  const auto run = make(30);
  run->start_auditor(kAuditor + 1);
  for (int number = 0; number < kMembers; ++number) run->start(number);
  const member::MemberResult refused = run->wait(kAuditor + 1);
  EXPECT_EQ(refused.outcome, member::MemberOutcome::kRefused);
  EXPECT_THAT(refused.why, HasSubstr("not an auditor's"));
  EXPECT_EQ(run->wait(0).outcome, member::MemberOutcome::kFinished);
}

TEST_P(HostedAuditors, ThatComputeOtherwiseFindSmallErrors) {
  const auto run = make(30);
  run->start_auditor(kAuditor, Precision::kBf16);
  for (int number = 0; number < kMembers; ++number) run->start(number);
  run->wait(kAuditor);
  const auto audits = run->audits();
  ASSERT_GE(audits.size(), 5u);
  double largest = 0;
  for (const membership::Audit& audit : audits) largest = std::max(largest, *audit.error);
  std::cout << fmt::format("errors up to {:.4f} in {} audits\n", largest, audits.size());
  EXPECT_GT(largest, 0);
  EXPECT_LT(largest, 0.1);
}

// It joins late, is stopped, and comes back.
TEST_P(HostedAuditors, ComeAndGo) {
  const auto run = make(60);
  run->hold_at(25);
  for (int number = 0; number < kMembers; ++number) run->start(number);
  run->wait_until([](const membership::State& state) { return state.next_round >= 24; });
  run->start_auditor(kAuditor);
  run->release();
  run->wait_until([&](const membership::State& state) { return state.next_round >= 35; });
  EXPECT_EQ(run->leave(kAuditor).outcome, member::MemberOutcome::kLeft);
  run->start_auditor(kAuditor);
  EXPECT_EQ(to_hex(run->wait(kAuditor).digest), to_hex(run->wait(0).digest));
}

INSTANTIATE_TEST_SUITE_P(AllReduce, HostedAuditors, testing::Values(Case{"allreduce", 30, 400}),
                         [](const auto& one) { return one.param.method; });

// Under every method an auditor ends with the run's weights, and finds something.
class HostedAuditsOf : public HostedCase {};

TEST_P(HostedAuditsOf, EveryMethodEndWithItsWeights) {
  if (!prepare(42)) GTEST_SKIP() << why_not_;
  HostedRun run(recipe_, folder_, options_);
  run.admit_auditor(kAuditor);
  run.start_auditor(kAuditor);
  for (const int number : {0, 1}) run.start(number);
  try {
    expect_agreement(run, {0, 1, kAuditor});
  } catch (const UsageError& error) {
    EXPECT_EQ(recipe_.optim.method, "galore") << error.what();
    EXPECT_THAT(error.what(), HasSubstr("[optim] gradients must be \"whole\" for audits"));
    return;
  }
  EXPECT_FALSE(run.audits().empty());
  for (const membership::Audit& audit : run.audits()) {
    EXPECT_LE(std::abs(audit.effect), std::sqrt(recipe_.train.batch * recipe_.train.steps));
    EXPECT_EQ(audit.error.value_or(0), 0) << "the same machine, the same bits";
  }
}

INSTANTIATE_TEST_SUITE_P(Methods, HostedAuditsOf, testing::ValuesIn(all_variants()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace thinwire::launch
