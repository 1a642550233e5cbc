// Records that are longer than a message: rounds of so many steps that a record of three members
// has four parts, on a link that carries one of them in a quarter of a second.
#include <gtest/gtest.h>

#include <vector>

#include "tests/serve/host_case.h"
#include "thinwire/membership/coordinator.h"
#include "thinwire/membership/ledger.h"

namespace thinwire::serve {
namespace {

constexpr size_t kParts = 4;

class LongRecords : public HostCase {
 protected:
  LongRecords() {
    steps_ = 100'000;
    options_.founding.coordinators = {signer_->key(), second_->key()};
    std::ranges::sort(options_.founding.coordinators);
    courier_.reset();
    courier_ = network_.connect(name_of(*signer_), {.up_bit_s = 8e6});
    reading_ =
        members_[0].courier->read(membership::kLedgerStream, 1,
                                  [this](uint64_t, Bytes message) { stream_.push_back(message); });
  }
  // The host is awake meanwhile, and its link carries what it sends.
  void wait(double seconds) {
    for (; seconds > 0; seconds -= 0.1) sleep(0.1);
  }
  void report_all() {
    for (int member = 0; member < 3; ++member) report(member);
    wait(0.1);
  }
  static std::string name_of(const Signer& signer) { return participant_name(signer.key()); }

  // All are admitted, and the coordinator writes the opening of round 0.
  void come_to_the_first_round() {
    start(9);
    wait(1);
    for (int member = 0; member < 3; ++member) send(member, join_request(member));
    wait(2);
    ASSERT_EQ(host_->state().members.size(), 3u);
    before_ = stream_.size();
    report_all();
  }
  void begin() {
    come_to_the_first_round();
    wait(2);
    ASSERT_EQ(host_->state().next_round, 1u);
  }
  // The coordinator's connection is lost when two parts have arrived.
  void tear() {
    come_to_the_first_round();
    network_.run_until(now_ + 0.6);
    now_ += 0.6;
    network_.disconnect(name_of(*signer_));
    ASSERT_EQ(stream_.size() - before_, 2u);
    ASSERT_EQ(host_->state().next_round, 0u);
  }
  // What everybody who reads the stream from its beginning has then.
  Result<membership::State> replay() const {
    membership::RecordJoiner joiner;
    std::vector<Bytes> records;
    for (const Bytes& message : stream_) {
      EXPECT_LE(message.size(), transport::kMaxMessageBytes);
      if (auto record = joiner.take(message)) records.push_back(*std::move(record));
    }
    return membership::Coordinator::replay(records, verify);
  }
  void expect_replayed() const {
    const Result<membership::State> state = replay();
    ASSERT_TRUE(state) << state.error().message;
    EXPECT_EQ(*state, host_->state());
  }

  const std::unique_ptr<Signer> second_ = member::signer_of(2);
  std::vector<Bytes> stream_;  // as member 0 reads it
  size_t before_ = 0;          // messages, when the opening of round 0 is due
  std::unique_ptr<transport::Subscription> reading_;
};

TEST_F(LongRecords, AreWrittenInPartsAndReadAsOne) {
  begin();
  EXPECT_EQ(stream_.size() - before_, kParts);
  expect_replayed();
  for (int member = 0; member < 3; ++member) offer(member, 0, payload(member, 0));
  wait(3);
  EXPECT_EQ(host_->state().next_round, 2u);
  expect_replayed();
  start(9);
  wait(1);
  EXPECT_EQ(host_->state().next_round, 2u) << "its successor reads the same";
}

// A part takes longer than the coordinator waits before it decides again.
TEST_F(LongRecords, AreNotSentAgainWhileTheyAreOnTheirWay) {
  courier_.reset();
  courier_ = network_.connect(name_of(*signer_), {.up_bit_s = 5e5});
  come_to_the_first_round();
  const double begun = now_;
  while (host_->state().next_round == 0 && now_ < begun + 60) wait(0.5);
  ASSERT_EQ(stream_.size() - before_, kParts);
  EXPECT_GT(now_ - begun, 4 * options_.membership.retry_s());
  bool stored = false;
  courier_->append("other", 0, Bytes(1000), [&](const Result<uint64_t>&) { stored = true; });
  wait(1);
  EXPECT_TRUE(stored) << "the link is free";
}

TEST_F(LongRecords, AreCompletedAfterAnOutage) {
  tear();
  wait(1);
  network_.reconnect(name_of(*signer_));
  wait(2);
  report_all();
  wait(5);
  ASSERT_EQ(host_->state().next_round, 1u);
  EXPECT_EQ(stream_.size() - before_, kParts) << "what was there is not written again";
  expect_replayed();
}

TEST_F(LongRecords, AreLeftBehindWhenTheirWriterDies) {
  tear();
  host_.reset();
  courier_ = network_.connect(name_of(*second_));
  options_.standby = true;
  plan_.emplace(9, steps_);
  host_ = std::make_unique<CoordinatorHost>(*courier_, *second_, *plan_, options_);
  wait(2);
  report_all();
  wait(options_.membership.takeover_s() - 4);
  EXPECT_EQ(host_->state().next_round, 0u) << "the first one may still come back";
  wait(4);
  ASSERT_EQ(host_->state().next_round, 1u);
  EXPECT_TRUE(host_->leads());
  EXPECT_EQ(stream_.size() - before_, 2 + kParts);
  expect_replayed();
}

// A power cut, after which the stream ends within a record that was complete.
TEST_F(LongRecords, AreCompletedIfTheStoreLosesTheirEnd) {
  begin();
  reading_.reset();
  network_.lose_records(membership::kLedgerStream, 1);
  for (int member = 0; member < 3; ++member) offer(member, 0, payload(member, 0));
  wait(10);
  report_all();
  wait(5);
  EXPECT_EQ(host_->state().next_round, 2u);
  stream_.clear();
  reading_ =
      members_[1].courier->read(membership::kLedgerStream, 1,
                                [this](uint64_t, Bytes message) { stream_.push_back(message); });
  wait(1);
  EXPECT_EQ(stream_.size() - before_, 2 * kParts);
  expect_replayed();
}

// The store and the coordinator have lost all of it.
TEST_F(LongRecords, AreGivenBackByMembersInParts) {
  begin();
  const std::vector<Bytes> parts(stream_.end() - kParts, stream_.end());
  const membership::Position lost = host_->state().position;
  host_.reset();
  network_.lose_records(membership::kLedgerStream, kParts);
  start(9);
  wait(2);
  ASSERT_EQ(host_->state().next_round, 0u);
  send(2, membership::Report{2, lost, {}});
  wait(1);  // it is asked for them
  for (const Bytes& part : parts) send(2, membership::Supply{2, {part}});
  wait(2);
  EXPECT_EQ(host_->state().position, lost);
}

TEST_F(LongRecords, AreNotTakenInPartsFromMembersThatWereNotAsked) {
  begin();
  const std::vector<Bytes> parts(stream_.end() - kParts, stream_.end());
  host_.reset();
  network_.lose_records(membership::kLedgerStream, kParts);
  start(9);
  wait(2);
  for (const Bytes& part : parts) send(2, membership::Supply{2, {part}});
  wait(2);
  EXPECT_EQ(host_->state().next_round, 0u);
}

// A server that is not honest has put it there.
TEST_F(LongRecords, AreNotWaitedForWhateverAPartClaims) {
  begin();
  Bytes claim = stream_.back();
  claim[45] = 1;  // 2^56 bytes
  uint64_t last = stream_.size();
  for (const Bytes& message : {claim, stream_.back(), Bytes{'T', 'W', 'L', 'P'}}) {
    members_[1].courier->append(membership::kLedgerStream, last++, message,
                                [](const Result<uint64_t>& done) { EXPECT_TRUE(done); });
  }
  wait(1);
  for (int member = 0; member < 3; ++member) offer(member, 0, payload(member, 0));
  wait(5);
  EXPECT_EQ(host_->state().next_round, 2u);
  expect_replayed();
}

}  // namespace
}  // namespace thinwire::serve
