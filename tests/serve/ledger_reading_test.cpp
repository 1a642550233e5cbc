#include "thinwire/serve/ledger_reading.h"

#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <variant>
#include <vector>

#include "tests/couriers/courier_memory.h"
#include "tests/member/written_ledger.h"
#include "thinwire/membership/ledger.h"
#include "thinwire/serve/coordinator_host.h"

namespace thinwire::serve {
namespace {

using membership::Input;
using membership::StoreConnected;
using membership::StoreDisconnected;

class LedgerReadings : public testing::Test {
 protected:
  // The ledger has three records, which were read.
  void SetUp() override {
    for (const Bytes& record : records_) add(record);
    reading_.begin();
    reading_.follow_connection(inputs_);
    settle();
  }
  // Somebody else appends it.
  void add(const Bytes& record) {
    other_->append(membership::kLedgerStream, ++added_ - 1, record,
                   [](const Result<uint64_t>& done) { EXPECT_TRUE(done); });
    network_.run();
  }
  // Until nothing arrives any more.
  void settle() {
    network_.run();
    for (auto arrived = inbox_->take(); !arrived.empty(); arrived = inbox_->take()) {
      for (Arrival& arrival : arrived) take(arrival);
      network_.run();
    }
  }
  void take(const Arrival& arrival) {
    if (const auto* read = std::get_if<ReadRecord>(&arrival)) {
      if (!reading_.is_current(*read)) return;
      const auto record = membership::decode_record(read->bytes);
      reading_.processed(read->sequence, record ? record->sequence : 0, inputs_);
    } else if (const auto* end = std::get_if<StreamEnd>(&arrival)) {
      reading_.take(*end, inputs_);
    } else if (const auto* refused = std::get_if<RefusedAppend>(&arrival)) {
      reading_.take(*refused);
    }
  }
  // What the store had when it was last reported as connected.
  uint64_t connected_with() const {
    const auto* connected = std::get_if<StoreConnected>(&inputs_.back());
    return connected == nullptr ? 0 : connected->last;
  }

  member::WrittenLedger ledger_;
  const std::vector<Bytes> records_ = {ledger_.found(), ledger_.admit(0), ledger_.admit(1)};
  transport::MemoryNetwork network_{{}};
  const std::unique_ptr<transport::Courier> courier_ = network_.connect("host");
  const std::unique_ptr<transport::Courier> other_ = network_.connect("other");
  const std::shared_ptr<Inbox> inbox_ = std::make_shared<Inbox>();
  LedgerReading reading_{*courier_, inbox_};
  std::vector<Input> inputs_;
  uint64_t added_ = 0;
};

TEST_F(LedgerReadings, TellWhatTheStoreHasOnceAllOfItIsRead) {
  ASSERT_EQ(inputs_.size(), 1u);
  EXPECT_EQ(connected_with(), 3u);
  EXPECT_EQ(reading_.last(), 3u);
}

TEST_F(LedgerReadings, NoticeWhatTheStoreLostWhileItStayedConnected) {
  network_.lose_records(membership::kLedgerStream, 1);
  reading_.append(ledger_.admit(2));
  settle();
  ASSERT_EQ(inputs_.size(), 3u);
  EXPECT_TRUE(std::holds_alternative<StoreDisconnected>(inputs_[1]));
  EXPECT_EQ(connected_with(), 2u);
  reading_.append(records_.back());
  settle();
  EXPECT_EQ(reading_.last(), 3u) << "the store has it again";
}

TEST_F(LedgerReadings, NoticeWhatTheStoreLostDuringAnOutage) {
  network_.disconnect("host");
  reading_.follow_connection(inputs_);
  network_.lose_records(membership::kLedgerStream, 2);
  network_.reconnect("host");
  reading_.follow_connection(inputs_);
  settle();
  EXPECT_EQ(connected_with(), 1u);
}

TEST_F(LedgerReadings, TakeARecordOfAnotherCoordinatorForNoLoss) {
  other_->append(membership::kLedgerStream, added_, ledger_.admit(2),
                 [](const Result<uint64_t>&) {});
  reading_.append(ledger_.admit(3));
  settle();
  EXPECT_EQ(reading_.last(), 4u);
  EXPECT_EQ(inputs_.size(), 1u);
}

}  // namespace
}  // namespace thinwire::serve
