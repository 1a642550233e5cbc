// What becomes of a contribution that was looked at and must not count.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "coordinator_case.h"

namespace thinwire::membership {
namespace {

using testing::HasSubstr;

class RefusedPayloads : public CoordinatorCase {
 protected:
  // A contribution to round 0.
  Offer bad_one(int member) const {
    return {member, 0, state().epoch, 0, hash_of(70 + static_cast<uint64_t>(member)), 10, {}};
  }
};

TEST_F(RefusedPayloads, ARefusedPayloadIsAnOffenceAndNobodyWaitsForIt) {
  begin(3);
  const Offer bad = bad_one(1);
  offer(0, 0);
  offer(2, 0);
  deliver({bad});
  EXPECT_EQ(state().last_closing, 0u);
  deliver({PayloadRefused{bad, "it is not finite"}});
  EXPECT_THAT(refusals_.back(), HasSubstr("it is not finite"));
  EXPECT_EQ(last_record().closing->missing, std::vector{1});
  EXPECT_EQ(member(1).offences(), 1u);
  EXPECT_EQ(member(1).phase, Phase::kLate);
}

TEST_F(RefusedPayloads, ARoundOfWhichNothingCountsOpensAnew) {
  begin(3);
  for (const int one : {0, 1, 2}) {
    const Offer bad = bad_one(one);
    deliver({bad});
    deliver({PayloadRefused{bad, "it is not finite"}});
  }
  EXPECT_EQ(state().last_closing, 0u);
  ASSERT_FALSE(state().open.empty());
  EXPECT_EQ(state().open.front().round, 0u);
  EXPECT_EQ(state().open.front().epoch, 1u);
  EXPECT_EQ(state().open.front().roster.size(), 3u);
  for (const int one : {0, 1, 2}) offer(one, 0);
  EXPECT_EQ(last_record().closing->round, 0u);
  EXPECT_TRUE(last_record().closing->missing.empty());
}

TEST_F(RefusedPayloads, AnotherPayloadInPlaceOfARefusedOneIsRefused) {
  begin(3);
  const Offer bad = bad_one(1);
  deliver({bad});
  deliver({PayloadRefused{bad, "it is not finite"}});
  offer(1, 0);
  EXPECT_THAT(refusals_.back(), HasSubstr("another one of this member was refused"));
  deliver({bad, Acknowledged{bad.payload}});
  EXPECT_EQ(member(1).offences(), 1u);
}

TEST_F(RefusedPayloads, AreForgivenAfterAHundredRounds) {
  plan_ = FakePlan(0, 1, 1000);
  begin(3);
  uint64_t round = 0;
  const auto go_to = [&](uint64_t end) {
    for (; round < end; ++round) {
      for (const int one : {0, 1, 2}) offer(one, round);
      ASSERT_EQ(state().next_round, round + 2);
    }
  };
  const auto refuse = [&] {
    const Offer bad{1, round, state().epoch, 0, hash_of(7), 10, {}};
    deliver({bad, PayloadRefused{bad, "its norm is an outlier"}});
    for (const int one : {0, 2}) offer(one, round);
    report(1);  // it has caught up
    ++round;
    for (const int one : {0, 2}) offer(one, round);
    ++round;
  };
  refuse();
  refuse();
  EXPECT_EQ(member(1).offences(), 2u);
  go_to(100);
  EXPECT_EQ(member(1).offences(), 2u);
  go_to(106);
  EXPECT_EQ(member(1).offences(), 0u);
  refuse();
  refuse();
  EXPECT_EQ(member(1).phase, Phase::kActive);
  deliver({Misconduct{1, "it fills the store"}});
  EXPECT_EQ(member(1).phase, Phase::kExcluded);
  go_to(300);
  EXPECT_EQ(member(1).offences(), 3u) << "of one that is excluded";
}

TEST_F(RefusedPayloads, MisconductIsNotForgiven) {
  plan_ = FakePlan(0, 1, 1000);
  begin(3);
  deliver({Misconduct{1, "it fills the store"}});
  for (uint64_t round = 0; round < 300; ++round) {
    for (const int one : {0, 1, 2}) offer(one, round);
  }
  EXPECT_EQ(member(1).offences(), 1u);
}

TEST_F(RefusedPayloads, AnAcknowledgementMayBeOfOneMembersOfferOnly) {
  begin(3);
  const Sha256 same = hash_of(5);
  for (const int one : {0, 1, 2}) deliver({Offer{one, 0, state().epoch, 0, same, 10, {}}});
  deliver({Acknowledged{same, 0}, Acknowledged{same, 2}});
  EXPECT_EQ(state().last_closing, 0u);
  deliver({Acknowledged{same, 1}});
  EXPECT_GT(state().last_closing, 0u);
}

}  // namespace
}  // namespace thinwire::membership
