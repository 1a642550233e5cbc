#include "thinwire/serve/store_cleaner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <variant>

#include "tests/member/written_ledger.h"
#include "thinwire/transport/courier/courier_memory.h"
#include "thinwire/transport/nats/nkey.h"

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
  // Until nothing is left to do.
  void clean() {
    cleaner_.clean(state_);
    network_.run();
    for (Arrival& arrival : inbox_->take()) {
      if (auto* listed = std::get_if<ListedSnapshot>(&arrival)) cleaner_.take(std::move(*listed));
    }
    cleaner_.clean(state_);
    network_.run();
  }
  bool is_there(uint64_t sequence) {
    bool there = false;
    host_->get(transport::blob_id(content_of(static_cast<uint8_t>(sequence))), {member_->self()},
               transport::Priority::kBulk,
               [&](const Result<Bytes>& got) { there = got.has_value(); });
    network_.run();
    return there;
  }

  transport::MemoryNetwork network_{{}};
  const std::unique_ptr<transport::Courier> host_ = network_.connect("host");
  const std::unique_ptr<transport::Courier> member_ =
      network_.connect(transport::participant_name(member::member_key(0)));
  const std::shared_ptr<Inbox> inbox_ = std::make_shared<Inbox>();
  StoreCleaner cleaner_{*host_, inbox_};
  membership::State state_;
};

TEST_F(StoreCleaning, KeepsTheNewestTwoSnapshotsWithTheChunksThatTheyShareWithOlderOnes) {
  for (const uint64_t sequence : {10, 20, 30}) take_snapshot(sequence);
  EXPECT_FALSE(is_there(10));
  EXPECT_TRUE(is_there(20));
  EXPECT_TRUE(is_there(30));
}

TEST_F(StoreCleaning, KeepsASnapshotThatSomebodyIsToBeginWith) {
  state_.members[0].snapshot = 10;
  for (const uint64_t sequence : {10, 20, 30}) take_snapshot(sequence);
  EXPECT_TRUE(is_there(10));
  state_.members[0].snapshot.reset();
  clean();
  EXPECT_FALSE(is_there(10));
}

}  // namespace
}  // namespace thinwire::serve
