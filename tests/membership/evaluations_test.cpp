// Evaluations that decide which weights are the best, and whether the run ends.
#include <gtest/gtest.h>

#include <vector>

#include "coordinator_case.h"

namespace thinwire::membership {
namespace {

// An evaluation after each second round, that is after 4 steps each.
class Evaluations : public CoordinatorCase {
 protected:
  Evaluations() {
    plan_ = FakePlan(0, 1, 6, 2);
    options_.watch = "validation";
    options_.patience = 2;
  }

  void lose(int member, uint64_t step, double mean, const std::string& set = "validation") {
    deliver({Loss{member, step, set, 10 * mean, 10}});
  }
  // All members contribute to the next two rounds.
  void train_two() {
    for (int i = 0; i < 2; ++i) {
      ASSERT_FALSE(state().open.empty());
      const uint64_t round = state().open.front().round;
      for (const int member : {0, 1, 2}) offer(member, round);
    }
  }
  std::vector<Evaluation> recorded() const {
    std::vector<Evaluation> all;
    for (uint64_t at = 1; at <= ledger_.last(); ++at) {
      const Record record = *decode_record(*ledger_.read(at));
      for (const Change& change : record.changes) {
        if (const auto* one = std::get_if<Evaluation>(&change)) all.push_back(*one);
      }
    }
    return all;
  }
};

TEST_F(Evaluations, TheNextRoundOpensOnceAllHaveReportedTheirLosses) {
  begin(3);
  train_two();
  EXPECT_TRUE(state().open.empty());
  EXPECT_EQ(state().next_round, 2u);
  lose(0, 4, 3);
  lose(1, 4, 5);
  lose(2, 4, 5, "another");
  lose(2, 6, 5);
  EXPECT_TRUE(recorded().empty()) << "one is missing";
  lose(2, 4, 4);
  ASSERT_EQ(recorded(), (std::vector<Evaluation>{{4, 4.0, false}}));
  ASSERT_EQ(state().open.size(), 1u);
  const Opening& next = state().open.front();
  EXPECT_EQ(next.round, 2u);
  EXPECT_EQ(next.epoch, 0u) << "its roster is that of the round before";
  for (const Share& share : next.roster) EXPECT_EQ(share.since, 0u) << "all stayed";
}

TEST_F(Evaluations, EndTheRunOncePatienceIsUsedUp) {
  begin(3);
  for (const auto& [step, mean] : {std::pair{4u, 2.0}, {8u, 3.0}}) {
    train_two();
    for (const int member : {0, 1, 2}) lose(member, step, mean);
  }
  EXPECT_FALSE(state().finished);
  plan_ = FakePlan(0, 1, 60, 2);
  train_two();
  for (const int member : {0, 1, 2}) lose(member, 12, 2.0);
  EXPECT_TRUE(state().finished) << "equal is not lower";
  EXPECT_EQ(recorded().back(), (Evaluation{12, 2.0, true}));
  EXPECT_TRUE(state().open.empty());
  EXPECT_EQ(state().next_step, 12u);
  EXPECT_EQ(state().evaluated.best_step, 4u);
  EXPECT_EQ(state().evaluated.since, 2u);
}

TEST_F(Evaluations, AreRecordedAfterTheLastRound) {
  plan_ = FakePlan(0, 1, 2, 2);
  begin(3);
  train_two();
  EXPECT_TRUE(state().finished);
  EXPECT_TRUE(recorded().empty());
  for (const int member : {0, 1, 2}) lose(member, 4, 1);
  EXPECT_EQ(recorded(), (std::vector<Evaluation>{{4, 1.0, false}}));
}

TEST_F(Evaluations, DoNotWaitForWhoIsGone) {
  begin(3);
  train_two();
  lose(0, 4, 1);
  lose(1, 4, 3);
  deliver({Departed{key(2)}});
  wait(0.9, {0, 1});
  EXPECT_TRUE(recorded().empty()) << "it may be back in a moment";
  wait(2.5, {0, 1});
  EXPECT_EQ(recorded(), (std::vector<Evaluation>{{4, 2.0, false}}));
  ASSERT_EQ(state().open.size(), 1u);
}

TEST_F(Evaluations, DoNotWaitForeverForWhoIsPresent) {
  begin(3);
  train_two();
  lose(0, 4, 1);
  wait(99, {0, 1, 2});
  EXPECT_TRUE(recorded().empty());
  wait(2.5, {0, 1, 2});
  EXPECT_EQ(recorded(), (std::vector<Evaluation>{{4, 1.0, false}}));
}

TEST_F(Evaluations, DoNotWaitForeverIfNobodyReports) {
  begin(3);
  train_two();
  wait(98, {0, 1, 2});
  EXPECT_TRUE(recorded().empty());
  wait(5, {0, 1, 2});
  EXPECT_EQ(recorded(), (std::vector<Evaluation>{{4, {}, false}}));
  EXPECT_EQ(state().open.size(), 1u);
}

TEST_F(Evaluations, TimeInWhichNobodyIsHeardDoesNotCount) {
  begin(3);
  train_two();
  lose(0, 4, 1);
  wait(60, {});
  wait(90, {0, 1, 2});
  EXPECT_TRUE(recorded().empty());
  wait(15, {0, 1, 2});
  EXPECT_EQ(recorded(), (std::vector<Evaluation>{{4, 1.0, false}}));
}

TEST_F(Evaluations, ImpossibleLossesCountAsNone) {
  begin(4);
  for (int i = 0; i < 2; ++i) {
    const uint64_t round = state().open.front().round;
    for (const int member : {0, 1, 2, 3}) offer(member, round);
  }
  lose(0, 4, 2);
  lose(1, 4, -5);
  deliver({Loss{2, 4, "validation", 7, UINT64_MAX - 9}});
  EXPECT_TRUE(recorded().empty());
  deliver({Loss{3, 4, "validation", 7, 0}});
  EXPECT_EQ(recorded(), (std::vector<Evaluation>{{4, 2.0, false}}));
}

TEST_F(Evaluations, LossesWhoseMeanIsNotFiniteDecideNothing) {
  begin(3);
  train_two();
  for (const int member : {0, 1, 2}) lose(member, 4, 1e307);
  EXPECT_EQ(recorded(), (std::vector<Evaluation>{{4, {}, false}}));
  EXPECT_EQ(state().open.size(), 1u);
}

TEST_F(Evaluations, WithoutAnyLossDecideNothing) {
  begin(3);
  train_two();
  for (const int member : {0, 1, 2}) deliver({Loss{member, 4, "validation", 0, 0}});
  EXPECT_EQ(recorded(), (std::vector<Evaluation>{{4, {}, false}}));
  EXPECT_EQ(state().evaluated.best_step, 0u);
  EXPECT_EQ(state().evaluated.since, 0u);
  EXPECT_EQ(state().open.size(), 1u);
}

TEST_F(Evaluations, ACoordinatorThatWasStartedAgainHearsTheLossesAgain) {
  begin(3);
  train_two();
  lose(0, 4, 1);
  restart();
  wait(2, {0, 1, 2});
  EXPECT_TRUE(recorded().empty());
  for (const int member : {0, 1, 2}) lose(member, 4, 1);
  EXPECT_EQ(recorded(), (std::vector<Evaluation>{{4, 1.0, false}}));
  EXPECT_EQ(state().open.front().roster.front().since, 0u);
}

TEST_F(Evaluations, TheDigestOfTheBestWeightsIsTheAgreedOne) {
  begin(3);
  train_two();
  for (const int member : {0, 1, 2}) lose(member, 4, 1);
  EXPECT_FALSE(state().evaluated.best_digest);
  for (const int member : {0, 1, 2}) report(member, AgreedDigest{1, 77});
  EXPECT_EQ(state().evaluated.best_digest, 77u);
  train_two();
  for (const int member : {0, 1, 2}) report(member, AgreedDigest{3, 78});
  for (const int member : {0, 1, 2}) lose(member, 8, 0.5);
  EXPECT_EQ(state().evaluated.best_step, 8u);
  EXPECT_EQ(state().evaluated.best_digest, 78u);
}

TEST_F(Evaluations, ThatAreNotDueAreNoRecords) {
  begin(3);
  State after = state();
  Record record{after.position.sequence + 1,
                after.position.hash,
                fake_key(0),
                {Evaluation{4, 1.0, false}},
                {},
                {}};
  EXPECT_FALSE(after.apply(record, hash_of(9))) << "a round is open";
  train_two();
  after = state();
  record.sequence = after.position.sequence + 1;
  record.previous = after.position.hash;
  record.changes = {Evaluation{6, 1.0, false}};
  EXPECT_FALSE(after.apply(record, hash_of(9))) << "another step";
  record.changes = {Evaluation{4, 1.0, false}, Evaluation{4, 1.0, false}};
  EXPECT_FALSE(after.apply(record, hash_of(9))) << "twice";
  record.changes.pop_back();
  EXPECT_TRUE(after.apply(record, hash_of(9)));
}

}  // namespace
}  // namespace thinwire::membership
