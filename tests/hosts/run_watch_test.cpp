#include "thinwire/hosts/run_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "thinwire/method/registry.h"

namespace thinwire::hosts {
namespace {

using membership::Phase;
using page::ActivityKind;
using testing::ElementsAre;
using testing::HasSubstr;

membership::Opening opening(uint64_t round, const std::vector<int>& roster) {
  membership::Opening opening;
  opening.round = round;
  opening.first_step = round;
  opening.steps.resize(1);
  for (const int member : roster) opening.roster.push_back({.member = member, .rows = {}});
  return opening;
}

class MemberNowTest : public testing::Test {
 protected:
  MemberNowTest() {
    state_.members.resize(3);
    for (membership::Member& member : state_.members) member.phase = Phase::kActive;
    state_.open = {opening(4, {0, 1, 2}), opening(5, {0, 1, 2})};
    for (int id = 0; id < 3; ++id) reports_[id].silent_s = 10;
  }
  page::MemberNow now(int id) const { return MembersNow(state_, reports_).of(id); }

  membership::State state_;
  std::map<int, serve::LatestReport> reports_;
};

TEST_F(MemberNowTest, ComputesTheFirstRoundThatItHasNotOffered) {
  EXPECT_EQ(now(0).activity, ActivityKind::kComputing);
  EXPECT_EQ(now(0).round, 4u);
  reports_[0].offered = 4;
  reports_[0].arrived = 4;
  EXPECT_EQ(now(0).activity, ActivityKind::kComputing) << "while round 4 is collected";
  EXPECT_EQ(now(0).round, 5u);
}

TEST_F(MemberNowTest, SendsUntilItsContributionIsHere) {
  reports_[0].offered = 5;
  reports_[0].arrived = 4;
  EXPECT_EQ(now(0).activity, ActivityKind::kSending);
}

TEST_F(MemberNowTest, WaitsForThoseWhoHaveNotCome) {
  reports_[0].offered = reports_[0].arrived = 5;
  reports_[2].offered = reports_[2].arrived = 4;
  EXPECT_EQ(now(0).activity, ActivityKind::kWaiting);
  EXPECT_EQ(now(0).why, "waits for member 1 in round 4");
  reports_[2].arrived = std::nullopt;
  EXPECT_EQ(now(0).why, "waits for members 1, 2 in round 4");
}

TEST_F(MemberNowTest, SaysWhySomebodyIsAway) {
  state_.members[0].phase = Phase::kLost;
  EXPECT_EQ(now(0).activity, ActivityKind::kLost);
  EXPECT_EQ(now(0).why, "silent for 10.0 s");
  state_.members[0].phase = Phase::kExcluded;
  state_.members[0].misconduct = 3;
  EXPECT_EQ(now(0).why, "excluded after 3 offences");
  state_.members[0].misconduct = 0;
  EXPECT_EQ(now(0).why, "excluded: its key was revoked");
  state_.members[0].phase = Phase::kLate;
  EXPECT_EQ(now(0).activity, ActivityKind::kCatchingUp);
  state_.members[0].phase = Phase::kLeft;
  EXPECT_EQ(now(0).activity, ActivityKind::kLeft);
  reports_.clear();
  EXPECT_THAT(now(1).why, HasSubstr("no message"));
}

class RunWatchTest : public testing::Test {
 protected:
  membership::Record closed(uint64_t round, std::vector<int> missing) {
    membership::Record record;
    record.closing.emplace();
    record.closing->round = round;
    record.closing->missing = std::move(missing);
    Commit commit;
    commit.contributions.push_back({.member = 0, .payload = {}, .bytes = 70});
    record.closing->commits = {commit, commit};
    return record;
  }
  membership::Record opened(uint64_t round) {
    membership::Record record;
    record.openings = {opening(round, {0, 1})};
    return record;
  }

  config::Recipe recipe_ = method::load_recipe("", {});
  page::LiveRun page_{{}, [] { return 0.0; }};
  RunWatch watch_{recipe_, LossBoard({"validation"}), page_, [](const PublicKey&) { return ""; }};
};

TEST_F(RunWatchTest, ShowsLossesOnceTheirRoundIsClosed) {
  recipe_.train.steps = 6;
  watch_.record(opened(4), false, 10);  // its step completes 5 steps
  for (const int member : {0, 1}) {
    watch_.add_loss({member, 4, "validation", 100 * (2.0 + member), 100});
    watch_.add_loss({member, 5, "", 100 * (4.0 + member), 100});
  }
  EXPECT_TRUE(page_.state().train.points().empty());
  watch_.record(closed(4, {}), false, 11);
  page::PageState state = page_.state();
  ASSERT_EQ(state.train.points().size(), 1u);
  EXPECT_EQ(state.train.points()[0].step, 5);
  EXPECT_DOUBLE_EQ(state.train.points()[0].value, 4.5);
  ASSERT_EQ(state.validation["validation"].points().size(), 1u);
  EXPECT_DOUBLE_EQ(state.validation["validation"].points()[0].value, 2.5);
}

TEST_F(RunWatchTest, ShowsTheLastEvaluationOnceAllHaveReportedIt) {
  recipe_.train.steps = 5;
  watch_.record(opened(4), false, 10);
  watch_.record(closed(4, {}), false, 11);
  watch_.add_loss({0, 5, "validation", 200, 100});
  EXPECT_TRUE(page_.state().validation.empty());
  watch_.add_loss({1, 5, "validation", 900, 300});
  page::PageState state = page_.state();
  ASSERT_EQ(state.validation["validation"].points().size(), 1u);
  EXPECT_DOUBLE_EQ(state.validation["validation"].points()[0].value, 2.75);
}

TEST_F(RunWatchTest, ShowsTheEvaluationThatEndsTheRun) {
  watch_.record(opened(4), false, 10);
  watch_.record(closed(4, {}), false, 11);
  for (const int member : {0, 1}) watch_.add_loss({member, 5, "validation", 200, 100});
  EXPECT_TRUE(page_.state().validation.empty()) << "the next round may open";
  membership::Record ended;
  ended.changes = {membership::Evaluation{5, 2.0, true}};
  watch_.record(ended, false, 12);
  EXPECT_EQ(page_.state().validation["validation"].points().size(), 1u);
}

TEST_F(RunWatchTest, ShowsTheLastEvaluationWithoutWhoeverIsGone) {
  recipe_.train.steps = 5;
  watch_.record(opened(4), false, 10);
  watch_.record(closed(4, {1}), false, 11);
  watch_.add_loss({0, 5, "validation", 200, 100});
  EXPECT_EQ(page_.state().validation["validation"].points().size(), 1u);
}

TEST_F(RunWatchTest, ListsRoundsWithWhatCountedAndWhoWasMissing) {
  watch_.record(opened(3), false, 10);
  watch_.record(closed(3, {1}), false, 12.5);
  const page::PageState state = page_.state();
  ASSERT_EQ(state.rounds.size(), 1u);
  const page::ClosedRound& round = state.rounds.front();
  EXPECT_EQ(round.round, 3u);
  EXPECT_EQ(round.seconds, 2.5);
  EXPECT_EQ(round.bytes, (std::map<int, uint64_t>{{0, 140}}));
  EXPECT_THAT(round.missing, ElementsAre(1));
  ASSERT_EQ(state.faults.size(), 1u);
  EXPECT_EQ(state.faults.front().text, "round 3 was closed without member 1");
}

// One bit a value, 256 values, and sums of eight bits.
TEST(RunWatch, CountsSumsWhereTheCoordinatorFormsThem) {
  using Case = std::pair<const char*, double>;
  for (const auto& [sums, received] :
       {Case{"coordinator", 3 * 258.0}, Case{"members", 2 * 102.0}}) {
    const std::vector<std::string> fields = {"sync.method=diloco", "diloco.wire=int1",
                                             "diloco.sum_wire=fp8",
                                             std::string("sync.sums=") + sums};
    const config::Recipe recipe = method::load_recipe("", fields);
    page::LiveRun page{{}, [] { return 0.0; }};
    RunWatch watch(recipe, LossBoard({}), page, [](const PublicKey&) { return ""; });
    membership::Record opened;
    opened.openings = {opening(0, {0, 1, 2})};
    watch.record(opened, false, 0);
    membership::Record closed;
    closed.closing.emplace();
    for (int member = 0; member < 3; ++member) {
      closed.closing->commits.resize(1);
      closed.closing->commits[0].contributions.push_back(
          {.member = member, .payload = {}, .bytes = 34});
    }
    watch.record(closed, false, 1);
    EXPECT_EQ(page.state().bytes_received, received) << sums;
  }
}

TEST_F(RunWatchTest, KnowsNoTimesAndNoFaultsOfWhatWasBefore) {
  watch_.record(opened(3), true, 10);
  watch_.record(closed(3, {1}), true, 10);
  watch_.record(opened(4), true, 10);
  watch_.record(closed(4, {1}), false, 12);
  const page::PageState state = page_.state();
  ASSERT_EQ(state.rounds.size(), 2u);
  EXPECT_FALSE(state.rounds[0].seconds);
  EXPECT_FALSE(state.rounds[1].seconds) << "nobody knows when it opened";
  EXPECT_EQ(state.faults.size(), 1u);
}

TEST_F(RunWatchTest, TellsFaultsFromMembersThatComeAndGo) {
  membership::Record record;
  record.changes = {membership::PhaseChange{0, Phase::kActive, {}},
                    membership::PhaseChange{1, Phase::kLost, {}}, membership::Offence{1, {}}};
  watch_.record(record, false, 10);
  const page::PageState state = page_.state();
  ASSERT_EQ(state.messages.size(), 1u);
  EXPECT_EQ(state.messages.front().text, "member 0 is active");
  ASSERT_EQ(state.faults.size(), 2u);
  EXPECT_EQ(state.faults.front().text, "member 1 is lost");
  EXPECT_EQ(state.faults.front().member, 1);
}

}  // namespace
}  // namespace thinwire::hosts
