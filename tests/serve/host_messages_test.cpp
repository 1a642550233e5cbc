// What a coordinator's host tells members and its own user.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/serve/host_case.h"
#include "thinwire/serve/coordinator_host.h"

namespace thinwire::serve {
namespace {

class HostThatDrops : public HostCase {
 protected:
  static constexpr uint64_t kHour = 3'600'000'000;
  // The participant's process before this one had a clock that was an hour ahead.
  void go_ahead(int member) {
    members_[static_cast<size_t>(member)].numbers.go_on_from(
        members_[static_cast<size_t>(member)].numbers.next() + kHour);
  }
};

// Its clock has been set right, and its process was started again.
TEST_F(HostThatDrops, TellsAMemberWhatItSaidWhenItsClockWasAhead) {
  std::vector<std::string> notices;
  options_.hooks.message = [&](const std::string& text) { notices.push_back(text); };
  begin(9);
  go_ahead(1);
  report(1);
  wait(1);
  members_[1].numbers = {};
  std::vector<membership::Message> heard;
  const auto hearing = hear_coordinator(heard);
  offer(1, 0, payload(1, 0));
  wait(1);
  EXPECT_FALSE(host_->reports().at(1).offered) << "it is dropped";
  ASSERT_EQ(heard.size(), 1u);
  const auto later = membership::decode_statement(
      std::get<membership::Overtaken>(heard.front()).later, kRun, verify);
  ASSERT_TRUE(later);
  EXPECT_EQ(later->author, key(1));
  EXPECT_TRUE(members_[1].numbers.go_on_from(later->number));
  offer(1, 0, payload(1, 0));
  wait(1);
  EXPECT_EQ(host_->reports().at(1).offered, 0u);
  ASSERT_EQ(notices.size(), 1u);
  EXPECT_THAT(notices.front(), testing::HasSubstr(key_id(key(1)) + " says is dropped"));
  EXPECT_THAT(notices.front(), testing::HasSubstr("its clock was ahead"));
}

// This host was stopped for a minute, and what was said first arrives last.
TEST_F(HostThatDrops, BlamesNoClockForAStatementThatIsOnlyLate) {
  std::vector<std::string> notices;
  options_.hooks.message = [&](const std::string& text) { notices.push_back(text); };
  begin(9);
  const uint64_t now = members_[1].numbers.next();
  members_[0].courier->publish(
      membership::kMembersTopic,
      membership::encode_statement(
          {kRun, key(1), now - kHour / 60, membership::Report{1, host_->state().position, {}}},
          *members_[1].signer));
  wait(1);
  ASSERT_EQ(notices.size(), 1u);
  EXPECT_THAT(notices.front(), testing::HasSubstr(key_id(key(1)) + " said was dropped"));
  EXPECT_THAT(notices.front(), testing::Not(testing::HasSubstr("ahead")));
}

TEST_F(HostThatDrops, GoesOnFromWhatItsPredecessorSaidWhenItsClockWasAhead) {
  begin(9);
  membership::StatementNumbers clock;
  const uint64_t ahead = clock.next() + kHour;
  const auto tell = [&](const Signer& author) {
    send(0, membership::Overtaken{membership::encode_statement(
                {kRun, author.key(), ahead, membership::LeaveNotice{0}}, author)});
    wait(1);
  };
  uint64_t number = 0;
  const auto hearing = members_[0].courier->subscribe(
      "", membership::kCoordinatorsTopic, [&](const std::string&, const Bytes& bytes) {
        const auto statement = membership::decode_statement(bytes, kRun, verify);
        if (statement) number = statement->number;
      });
  const auto say_something = [&] {
    offer(0, 5, payload(0, 5));  // it is refused
    wait(1);
  };
  tell(*members_[1].signer);
  say_something();
  EXPECT_GT(number, 0u);
  EXPECT_LT(number, ahead) << "that was another's";
  tell(*signer_);
  say_something();
  EXPECT_GT(number, ahead);
}

TEST_F(HostCase, SaysOnceWhatItRefusesAgainAndAgain) {
  std::vector<std::string> notices;
  options_.hooks.message = [&](const std::string& text) { notices.push_back(text); };
  begin(9);
  std::vector<membership::Message> heard;
  const auto hearing = hear_coordinator(heard);
  for (const int round : {5, 5, 5, 6}) {
    offer(0, round, payload(0, round));
    wait(1);
  }
  EXPECT_EQ(heard.size(), 4u);
  EXPECT_EQ(notices.size(), 2u) << "of rounds 5 and 6";
}

class HostThatRevokes : public HostCase {};

TEST_F(HostThatRevokes, ExcludesWhoeverStillSaysSomethingAndTellsItWhy) {
  bool revoked = false;
  options_.hooks.is_revoked = [&](const PublicKey& one) { return revoked && one == key(1); };
  begin(9);
  std::vector<membership::Message> heard;
  const auto hearing = hear_coordinator(heard);
  report_all();
  EXPECT_EQ(host_->state().members[1].phase, membership::Phase::kActive);
  revoked = true;
  for (int times = 0; times < 3; ++times) report(1);
  wait(1);
  EXPECT_EQ(host_->state().members[1].phase, membership::Phase::kExcluded);
  ASSERT_EQ(heard.size(), 1u) << "it is told once";
  const auto refusal = std::get<membership::Refuse>(heard.front());
  EXPECT_EQ(refusal.key, key(1));
  EXPECT_EQ(refusal.why, "its key was revoked");
  for (const int member : {0, 2}) offer(member, 0, payload(member, 0));
  wait(1);
  EXPECT_NE(host_->state().opening(1), nullptr);
}

}  // namespace
}  // namespace thinwire::serve
