#include "thinwire/serve/coordinator_host.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <vector>

#include "tests/serve/host_case.h"
#include "thinwire/serve/stray_cleaner.h"

namespace thinwire::serve {
namespace {

// Payloads that differ in their first byte only have the same values.
class HostThatCompares : public HostCase {
 protected:
  HostThatCompares() {
    options_.hooks.check = [](const membership::Offer&, uint64_t, const Bytes& payload) {
      return PayloadContent{1, sha256(std::span(payload).subspan(1))};
    };
  }
  static Bytes shared_payload(int member) { return {static_cast<uint8_t>(member), 7, 7, 7}; }
  static Bytes own_payload(int member) { return {0, static_cast<uint8_t>(member), 1}; }
  membership::Offer offer_of(int member, uint64_t round, const Bytes& payload) const {
    const transport::BlobId id = transport::blob_id(payload);
    return {member, round, host_->state().epoch, 0, id.name, id.bytes, {}};
  }
  // Round 0 closes, and round 1 opens.
  void close_first_round() {
    for (const int member : {0, 1, 2}) {
      offer(member, 0, own_payload(member));
    }
    wait(1);
    ASSERT_NE(host_->state().opening(1), nullptr);
  }
  // Rounds 0 and 1 close. In round 2, members 0 and 1 offer the same, in this order.
  void expect_second_is_copier() {
    close_first_round();
    for (const int member : {0, 1, 2}) offer(member, 1, {0, static_cast<uint8_t>(member), 2});
    wait(1);
    for (const int member : {0, 1}) {
      offer(member, 2, shared_payload(member));
      wait(1);
    }
    offer(2, 2, payload(2, 2));
    wait(1);
    EXPECT_EQ(host_->reports().at(0).refused, "");
    EXPECT_EQ(host_->reports().at(1).refused, "round 2: it is a copy of member 0's");
  }
};

// Or a member could make the coordinator remember any number of them.
TEST_F(HostThatCompares, AnOfferForARoundThatIsFarOffIsNotRemembered) {
  begin(9);
  send(1, offer_of(1, 2, shared_payload(1)));
  wait(1);
  expect_second_is_copier();
}

// Statements and records take different routes.
TEST_F(HostThatCompares, AnOfferForTheNextRoundMayComeBeforeItsOpening) {
  begin(9);
  send(1, offer_of(1, 1, shared_payload(1)));
  wait(1);
  close_first_round();
  for (const int member : {0, 1}) offer(member, 1, shared_payload(member));
  offer(2, 1, payload(2, 1));
  wait(1);
  EXPECT_EQ(host_->reports().at(0).refused, "round 1: it is a copy of member 1's");
  EXPECT_EQ(host_->reports().at(1).refused, "");
}

// Whoever may read the run can read a payload as soon as it is stored, and may offer it first.
TEST_F(HostThatCompares, AThiefThatReadsBeforeTheOfferIsTheCopier) {
  begin(1);
  send(0, membership::Announcement{offer_of(0, 0, shared_payload(0))});
  const transport::BlobId victims = put(0, shared_payload(0));
  Bytes read;
  members_[1].courier->get(victims, {name(0)}, transport::Priority::kRound,
                           [&](Result<Bytes> got) { read = got.value(); });
  network_.run_until(now_);
  ASSERT_EQ(read, shared_payload(0));
  read.front() = 1;  // its own name, as the formats of payloads demand
  offer(1, 0, read);
  wait(1);
  offer(0, 0, shared_payload(0));
  offer(2, 0, payload(2, 0));
  wait(1);
  EXPECT_EQ(host_->reports().at(0).refused, "");
  EXPECT_EQ(host_->reports().at(1).refused, "round 0: it is a copy of member 0's");
}

TEST_F(HostThatCompares, AnAnnouncementOfARoundThatIsFarOffIsNotRemembered) {
  begin(9);
  send(1, membership::Announcement{offer_of(1, 2, shared_payload(1))});
  wait(1);
  expect_second_is_copier();
}

// Payloads would wait for others' for an eighth of the time-out, 12.5 s.
TEST_F(HostThatCompares, WaitsForNoPayloadOfThoseWhoLeft) {
  begin(9);
  send(2, membership::LeaveNotice{2});
  for (const int member : {0, 1}) offer(member, 0, own_payload(member));
  wait(1);
  ASSERT_NE(host_->state().opening(1), nullptr);
  send(1, membership::LeaveNotice{1});
  offer(0, 1, own_payload(0));
  wait(1);
  EXPECT_NE(host_->state().opening(2), nullptr) << "alone";
}

TEST_F(HostThatCompares, WaitsForNoPayloadOfThoseWhoAreAbsent) {
  begin(9);
  for (const int member : {0, 1}) offer(member, 0, own_payload(member));
  wait(3, {0, 1});
  EXPECT_NE(host_->state().opening(0), nullptr) << "member 2 is absent after 5 s of silence";
  wait(4, {0, 1});
  EXPECT_EQ(host_->state().opening(0), nullptr);
  for (const int member : {0, 1}) EXPECT_EQ(host_->reports().at(member).arrived, 0u);
}

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

// Not the records of the ledger, of which a round has more than one.
TEST_F(HostCase, CountsTheRoundsThatAMemberIsBehind) {
  begin(4);
  close(0);
  report(0);
  close(1);
  EXPECT_EQ(host_->reports().at(0).behind, 1u);
  EXPECT_EQ(host_->reports().at(1).behind, 2u);
  start(4);
  wait(1);
  for (const int member : {0, 1}) report(member);
  send(2, membership::Report{2, std::nullopt, {}});
  wait(1);
  EXPECT_EQ(host_->reports().at(0).behind, 0u);
  EXPECT_EQ(host_->reports().at(2).behind, 2u) << "it has nothing yet";
}

TEST_F(HostCase, SaysWhetherItIsStillReadingWhatWasThereBefore) {
  begin(2);
  close(0);
  const uint64_t there = host_->state().position.sequence;
  uint64_t first_complete = 0;
  options_.hooks.progress = [&](const membership::State& state, bool complete) {
    if (complete && first_complete == 0) first_complete = state.position.sequence;
  };
  start(2);
  network_.run_until(now_);
  host_->tick(now_);  // reads, but does not know yet where the stream ends
  EXPECT_EQ(first_complete, 0u);
  wait(1);
  EXPECT_EQ(first_complete, there);
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
  wait(20);
  EXPECT_EQ(host_->unfinished(), std::vector({0, 1, 2}));
  for (const int member : {0, 1, 2}) report(member);
  wait(1);
  EXPECT_TRUE(host_->over());
}

// Its process may have ended long before this coordinator was started.
TEST_F(HostAtTheEnd, ServesThoseThatItNeverHeardForAsLongAsItTakesToLoseThem) {
  come_to_the_end();
  start(1);
  wait(1);
  for (const int member : {0, 1}) report(member);
  wait(20);
  EXPECT_EQ(host_->unfinished(), std::vector{2});
  wait(6);
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

// Its predecessor had waited for it long enough.
TEST_F(HostAtTheEnd, ServesNobodyWhoWasLostBeforeItStarted) {
  begin(2);
  close(0);
  wait(28, {0, 1});  // member 2 is lost
  for (const int member : {0, 1}) offer(member, 1, payload(member, 1));
  wait(1);
  ASSERT_TRUE(host_->state().finished);
  start(2);
  wait(1);
  for (const int member : {0, 1}) report(member);
  wait(1);
  EXPECT_EQ(host_->state().members[2].phase, membership::Phase::kLost);
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

// A member has got a record of its own into the stream, of a round and a snapshot that there are
// not.
TEST_F(HostOfAStore, DoesNotBelieveRecordsOfStrangers) {
  std::vector<PublicKey> writers;
  options_.hooks.record = [&](const membership::Record& record, bool) {
    writers.push_back(record.writer);
  };
  begin(9);
  offer(0, 0, payload(0, 0));
  wait(1);
  membership::Record record;
  record.writer = key(1);
  record.sequence = host_->state().position.sequence + 1;
  record.changes = {membership::Snapshot{0, 1, transport::blob_id(payload(0, 0)).name, 3}};
  bool appended = false;
  members_[1].courier->append(membership::kLedgerStream, host_->state().position.sequence,
                              membership::encode_record(record, *members_[1].signer),
                              [&](const Result<uint64_t>& done) { appended = done.has_value(); });
  wait(1);
  ASSERT_TRUE(appended);
  for (const int member : {1, 2}) offer(member, 0, payload(member, 0));
  wait(1);
  EXPECT_EQ(host_->state().next_round, 2u) << "it goes on behind it";
  EXPECT_EQ(std::ranges::count(writers, key(1)), 0);
  EXPECT_TRUE(is_stored(0, payload(0, 0))) << "what it takes for a snapshot is not dropped";
}

TEST_F(HostOfAStore, FreesWhatCameTooLateToCount) {
  constexpr uint64_t kRounds = 4 * kSpentRounds;
  begin(kRounds + 1);
  const Bytes late = {1, 2, 3, 4};
  put(2, late);  // and never offers it
  uint64_t round = 0;
  for (; round < kRounds && is_stored(2, late); ++round) {
    close(round);
    wait(options_.membership.timeout_s / kSpentRounds);
    report_all();
  }
  EXPECT_GE(round, kSpentRounds);
  EXPECT_LT(round, kRounds);
  for (uint64_t closed = 0; closed < round; ++closed) {
    EXPECT_TRUE(is_stored(2, payload(2, closed))) << "there is no snapshot yet";
  }
}

TEST_F(HostOfAStore, ExcludesAMemberThatFillsIt) {
  std::vector<std::string> messages;
  options_.hooks.message = [&](const std::string& text) { messages.push_back(text); };
  begin(40);
  wait(3);
  for (uint16_t time = 0; time < 3; ++time) {
    ASSERT_NE(host_->state().members[1].phase, membership::Phase::kExcluded) << time;
    for (uint16_t i = 0; i < 1000; ++i) {
      put(1,
          {static_cast<uint8_t>(i), static_cast<uint8_t>(i >> 8), static_cast<uint8_t>(time), 0});
    }
    for (int turn = 0; turn < 10 && host_->state().members[1].offences() == time; ++turn) {
      wait(1);
      report_all();
    }
  }
  const membership::State state = host_->state();
  EXPECT_EQ(state.members[1].phase, membership::Phase::kExcluded)
      << state.members[1].offences() << testing::PrintToString(messages);
  EXPECT_EQ(state.members[0].offences() + state.members[2].offences(), 0u);
  ASSERT_FALSE(messages.empty());
  EXPECT_THAT(messages[0],
              testing::HasSubstr("member 1 misuses the store: it has stored 1000 chunks"));
}

TEST_F(HostOfAStore, KeepsWhatMembersOfferForAsLongAsItIsNeeded) {
  const auto keeps = [&](const Bytes& blob) {
    bool kept = false;
    members_[0].courier->get(transport::blob_id(blob), {courier_->self()},
                             transport::Priority::kRound,
                             [&](const Result<Bytes>& got) { kept = got.has_value(); });
    network_.run_until(now_);
    return kept;
  };
  options_.keeps = true;
  // Its own, which are the same blobs as payloads of members.
  const Bytes early = payload(0, 0), later = payload(1, 0);
  courier_->put(std::make_shared<const Bytes>(early), transport::Priority::kBulk, [](auto) {});
  network_.run_until(now_);
  begin(9);
  host_->protect(transport::blob_id(later).name);
  for (const uint64_t round : {0, 1}) close(round);
  for (const int member : {0, 1, 2}) EXPECT_TRUE(keeps(payload(member, 1)));
  const membership::AgreedDigest digest{1, 42};
  report_all(digest);
  wait(1);
  take_snapshot(digest);
  EXPECT_TRUE(keeps(payload(0, 0))) << "the run can still be replayed from its beginning";
  take_snapshot(digest);
  EXPECT_FALSE(keeps(payload(2, 0)));
  EXPECT_TRUE(keeps(early));
  EXPECT_TRUE(keeps(later));
}

TEST_F(HostOfAStore, SaysWhichPayloadItLacks) {
  begin(1);
  std::vector<Sha256> lacking;
  const auto subscription = members_[0].courier->subscribe(
      "", membership::kCoordinatorsTopic, [&](const std::string&, const Bytes& bytes) {
        const auto statement = membership::decode_statement(bytes, kRun, verify);
        ASSERT_TRUE(statement);
        const auto* one = std::get_if<membership::Lacking>(&statement->message);
        if (one != nullptr) lacking.push_back(one->payload);
      });
  const transport::BlobId lost = transport::blob_id(payload(0, 0));
  send(0, membership::Offer{0, 0, 0, 0, lost.name, lost.bytes, {}});
  wait(1);
  ASSERT_FALSE(lacking.empty());
  EXPECT_EQ(lacking.front(), lost.name);
}

}  // namespace
}  // namespace thinwire::serve
