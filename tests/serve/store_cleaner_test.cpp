#include "thinwire/serve/store_cleaner.h"

#include <gtest/gtest.h>

#include <memory>

#include "tests/couriers/courier_memory.h"
#include "tests/member/written_ledger.h"
#include "thinwire/base/nkey.h"

namespace thinwire::serve {
namespace {

using transport::kMaxMessageBytes;

// A snapshot of three chunks, of which only the last one depends on `number`.
Bytes content_of(uint8_t number) {
  Bytes content(2 * kMaxMessageBytes + 100);
  content.back() = number;
  return content;
}

class StoreCleaning : public testing::Test {
 protected:
  StoreCleaning() { state_.members.emplace_back().key = member::member_key(0); }
  // Member 0 holds it.
  void take_snapshot(uint64_t sequence) {
    const auto blob = std::make_shared<const Bytes>(content_of(static_cast<uint8_t>(sequence)));
    const transport::BlobId id =
        member_->put(blob, transport::Priority::kBulk, [](const Result<void>&) {});
    network_.run();
    membership::Record record;
    record.changes = {membership::Snapshot{0, sequence, id.name, id.bytes}};
    cleaner_.read(record);
    state_.snapshots[sequence] = {id.name, id.bytes, {0}};
    while (state_.snapshots.size() > 2) state_.snapshots.erase(state_.snapshots.begin());
    clean();
  }
  void clean() {
    cleaner_.clean(state_);
    network_.run();
  }
  void close(uint64_t round, uint64_t sequence, const Bytes& payload) {
    close(round, sequence, payload, round);
  }
  bool is_there(uint64_t sequence) { return is_there(content_of(static_cast<uint8_t>(sequence))); }
  bool is_there(const Bytes& blob) {
    bool there = false;
    host_->get(transport::blob_id(blob), {member_->self()}, transport::Priority::kBulk,
               [&](const Result<Bytes>& got) { there = got.has_value(); });
    network_.run();
    return there;
  }
  // Member 0's payload of round `made_for`, in a record that an earlier host wrote.
  void close(uint64_t round, uint64_t sequence, const Bytes& payload, uint64_t made_for) {
    const transport::BlobId id =
        member_->put(std::make_shared<const Bytes>(payload), transport::Priority::kRound,
                     [](const Result<void>&) {});
    network_.run();
    Commit commit;
    commit.contributions.push_back({0, made_for, id.name, id.bytes, 1});
    membership::Record record;
    record.sequence = sequence;
    record.closing = membership::Closing{round, {commit}, {}};
    cleaner_.read(record);
    state_.next_round = round + 1;
  }

  transport::MemoryNetwork network_{{}};
  const std::unique_ptr<transport::Courier> host_ = network_.connect("host");
  const std::unique_ptr<transport::Courier> member_ =
      network_.connect(participant_name(member::member_key(0)));
  StoreCleaner cleaner_{*host_};
  membership::State state_;
};

TEST_F(StoreCleaning, KeepsTheNewestTwoSnapshotsWithTheChunksThatTheyShareWithOlderOnes) {
  for (const uint64_t sequence : {10, 20, 30}) take_snapshot(sequence);
  EXPECT_FALSE(is_there(10));
  EXPECT_TRUE(is_there(20));
  EXPECT_TRUE(is_there(30));
}

TEST_F(StoreCleaning, CountsTheChunksOfWhatIsNeeded) {
  const Holding first{member_->self(), transport::blob_id(content_of(10)).name};
  for (const uint64_t sequence : {10, 20}) take_snapshot(sequence);
  EXPECT_EQ(cleaner_.used(), 2 * 4u);
  EXPECT_EQ(cleaner_.used(first), 4u);
  take_snapshot(30);
  EXPECT_EQ(cleaner_.used(), 2 * 4u);
  EXPECT_EQ(cleaner_.used(first), 0u);
}

TEST_F(StoreCleaning, KeepsAPayloadThatIsASnapshotToo) {
  const Bytes both = content_of(20);
  state_.snapshots[0] = {};
  close(0, 5, both);
  for (const uint64_t sequence : {10, 20}) take_snapshot(sequence);
  EXPECT_TRUE(is_there(both)) << "the payload is spent";
  for (const uint64_t sequence : {30, 40}) take_snapshot(sequence);
  EXPECT_FALSE(is_there(both));
}

TEST_F(StoreCleaning, KeepsASnapshotThatSomebodyIsToBeginWith) {
  state_.members[0].snapshot = 10;
  for (const uint64_t sequence : {10, 20, 30}) take_snapshot(sequence);
  EXPECT_TRUE(is_there(10));
  state_.members[0].snapshot.reset();
  clean();
  EXPECT_FALSE(is_there(10));
}

TEST_F(StoreCleaning, FreesPayloadsThatAnEarlierHostSaw) {
  const Bytes small = {1, 2, 3};
  const Bytes large = content_of(100);  // it shares chunks with the one after it
  const Bytes needed = content_of(101);
  state_.snapshots[0] = {};
  close(0, 5, small);
  close(1, 6, large);
  close(2, 15, needed);
  take_snapshot(10);
  EXPECT_TRUE(is_there(small)) << "the run can still be replayed from its beginning";
  take_snapshot(20);
  EXPECT_FALSE(is_there(small));
  EXPECT_FALSE(is_there(large));
  EXPECT_TRUE(is_there(needed));
  take_snapshot(30);
  EXPECT_FALSE(is_there(needed));
}

TEST_F(StoreCleaning, KeepsALatePayloadAsLongAsTheRoundThatCountsIt) {
  const Bytes late = {1, 2, 3};
  cleaner_.offered(0, participant_name(member::member_key(0)), transport::blob_id(late));
  state_.snapshots[0] = {};
  close(0, 5, {4});
  close(1, 15, late, 0);
  for (const uint64_t sequence : {10, 20}) take_snapshot(sequence);
  EXPECT_TRUE(is_there(late)) << "round 1 is replayed from snapshot 10";
  take_snapshot(30);
  EXPECT_FALSE(is_there(late));
}

TEST_F(StoreCleaning, KeepsALatePayloadThatMayStillCount) {
  const Bytes late = {1, 2, 3};
  member_->put(std::make_shared<const Bytes>(late), transport::Priority::kRound,
               [](const Result<void>&) {});
  cleaner_.offered(0, participant_name(member::member_key(0)), transport::blob_id(late));
  state_.snapshots[0] = {};
  state_.overdue[{0, 0, 0}] = {{}, 1, 3};
  close(0, 5, {4});
  for (const uint64_t sequence : {10, 20}) take_snapshot(sequence);
  EXPECT_TRUE(is_there(late));
  state_.overdue.clear();
  clean();
  EXPECT_FALSE(is_there(late)) << "its turn has passed";
}

}  // namespace
}  // namespace thinwire::serve
