#include "thinwire/serve/coordinator_host.h"

#include <gtest/gtest.h>

#include "tests/serve/host_case.h"

namespace thinwire::serve {
namespace {

class HostThatSleeps : public HostCase {};

// Payloads wait for others' for an eighth of the time-out, which is long over when it wakes.
TEST_F(HostThatSleeps, JudgesNoPayloadBeforeTheOthersCouldCome) {
  options_.hooks.check = [](const membership::Offer&, uint64_t, const Bytes& payload) {
    return PayloadContent{static_cast<double>(payload.back()), sha256(payload)};
  };
  begin(1);
  offer(0, 0, {0, 0, 100});
  wait(1);
  sleep(1000);
  EXPECT_FALSE(host_->reports().at(0).arrived) << "alone, it has nothing to be compared with";
  for (const int member : {1, 2}) offer(member, 0, payload(member, 0));
  wait(1);
  EXPECT_NE(host_->reports().at(0).refused, "") << "its norm is 100 times that of the others";
}

TEST_F(HostThatSleeps, WaitsForTheFinalWeightsOfThoseWhomItCouldNotHear) {
  begin(1);
  close(0);
  ASSERT_TRUE(host_->state().finished);
  for (const int member : {0, 1}) report(member);
  wait(1);
  EXPECT_FALSE(host_->over());
  sleep(1000);
  EXPECT_FALSE(host_->over());
  EXPECT_LT(host_->reports().at(2).silent_s, 25);
  report(2);
  wait(1);
  EXPECT_TRUE(host_->over());
}

class HostAtTheEnd : public HostCase {
 protected:
  // All but member 2 have the end of a run of one round, and member 2 is silent from here on.
  void come_to_the_end() {
    begin(1);
    close(0);
    ASSERT_TRUE(host_->state().finished);
    for (const int member : {0, 1}) report(member);
    wait(1);
  }
};

TEST_F(HostAtTheEnd, ServesAMemberThatWasLostLately) {
  come_to_the_end();
  wait(30);
  EXPECT_FALSE(host_->over());
  EXPECT_EQ(host_->unfinished(), std::vector{2});
  report(2);
  wait(1);
  EXPECT_TRUE(host_->over());
}

TEST_F(HostAtTheEnd, DoesNotServeAMemberThatStaysAwayForEver) {
  come_to_the_end();
  wait(50);
  EXPECT_TRUE(host_->over());
}

TEST_F(HostAtTheEnd, ServesWhoeverItHasNotHeardSinceItStarted) {
  come_to_the_end();
  start(1);
  wait(30);
  EXPECT_EQ(host_->unfinished(), std::vector({0, 1, 2}));
  for (const int member : {0, 1, 2}) report(member);
  wait(1);
  EXPECT_TRUE(host_->over());
}

TEST_F(HostAtTheEnd, DoesNotServeThoseThatReportedTheirResultToItAlone) {
  come_to_the_end();
  start(1);  // what members said to its predecessor, it does not know
  for (const int member : {0, 1}) host_->note_result(key(member));
  wait(1);
  EXPECT_EQ(host_->unfinished(), std::vector{2});
  host_->note_result(key(2));
  EXPECT_TRUE(host_->over());
}

TEST_F(HostAtTheEnd, ServesNobodyWhoHasLeft) {
  come_to_the_end();
  send(2, membership::LeaveNotice{2});
  wait(1);
  EXPECT_TRUE(host_->over());
}

class HostOfAStore : public HostCase {};

TEST_F(HostOfAStore, FreesThePayloadsThatItsPredecessorLeft) {
  begin(9);
  for (const uint64_t round : {0, 1}) close(round);
  start(9);
  wait(1);
  const membership::AgreedDigest digest{1, 42};
  report_all(digest);
  wait(1);
  take_snapshot(digest);
  EXPECT_TRUE(is_stored(0, payload(0, 0))) << "the run can still be replayed from its beginning";
  take_snapshot(digest);
  for (const uint64_t round : {0, 1}) EXPECT_FALSE(is_stored(0, payload(0, round)));
}

TEST_F(HostOfAStore, SaysWhichPayloadItLacks) {
  begin(1);
  std::vector<Sha256> lacking;
  const auto subscription = members_[0].courier->subscribe(
      "", kCoordinatorsTopic, [&](const std::string&, const Bytes& bytes) {
        const auto statement = membership::decode_statement(bytes, kRun, verify);
        ASSERT_TRUE(statement);
        const auto* one = std::get_if<membership::Lacking>(&statement->message);
        if (one != nullptr) lacking.push_back(one->payload);
      });
  const transport::BlobId lost = transport::blob_id(payload(0, 0));
  send(0, membership::Offer{0, 0, 0, 0, lost.name, lost.bytes, 0});
  wait(1);
  ASSERT_FALSE(lacking.empty());
  EXPECT_EQ(lacking.front(), lost.name);
}

}  // namespace
}  // namespace thinwire::serve
