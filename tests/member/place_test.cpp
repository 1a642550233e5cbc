#include "thinwire/member/place.h"

#include <gtest/gtest.h>

#include <map>
#include <span>
#include <string>
#include <vector>

#include "tests/member/written_ledger.h"
#include "thinwire/method/architectures/architecture.h"
#include "thinwire/method/registry.h"

namespace thinwire::member {
namespace {

TEST(Place, IsReadAsItWasWritten) {
  const Place place{{7, sha256(Bytes{1})}, 3, 5, {9, sha256(Bytes{2})}};
  Bytes bytes = encode_place(place);
  EXPECT_EQ(decode_place(bytes), place);
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(decode_place(std::span(bytes).first(size))) << size;
  }
  bytes.push_back(0);
  EXPECT_FALSE(decode_place(bytes));
}

TEST(LastRecords, AreReadAsTheyWereWrittenIfTheRunsCoordinatorSignedThem) {
  WrittenLedger ledger;
  LedgerView view(ledger.founding);
  std::map<uint64_t, Bytes> all;
  for (const Bytes& record : {ledger.found(), ledger.admit(0), ledger.admit(1)}) {
    view.take(record);
    all.emplace(all.size() + 1, record);
  }
  EXPECT_EQ(view.last_records(1 << 20), all);
  const Bytes bytes = encode_records(all);
  EXPECT_EQ(decode_records(bytes, ledger.founding), all);
  EXPECT_EQ(decode_records(std::span(bytes).first(bytes.size() - 1), ledger.founding).size(), 2u);
  EXPECT_TRUE(decode_records({}, ledger.founding).empty());
  membership::Founding other = ledger.founding;
  other.coordinators = {member_key(5)};
  EXPECT_TRUE(decode_records(bytes, other).empty());
  all.erase(1);
  EXPECT_EQ(view.last_records(all.at(2).size() + all.at(3).size()), all);
}

// A ledger of rounds of one step, the last two of which DisTrO with overlap may have in flight.
class PlaceInLedger : public testing::Test {
 protected:
  void SetUp() override {
    for (const Bytes& record :
         {ledger_.found(), ledger_.admit(0), ledger_.open(0, 0), ledger_.close(0),
          ledger_.open(1, 0), ledger_.open(2, 0), ledger_.open(3, 0)}) {
      ASSERT_EQ(view_.take(record), LedgerView::Taken::kApplied);
    }
  }
  static constexpr uint64_t kClosing = 4;  // the record that closed round 0

  WrittenLedger ledger_;
  LedgerView view_{ledger_.founding};
  const config::Recipe recipe_ =
      method::load_recipe("", std::vector<std::string>{"train.steps=6", "model.vocab=64",
                                                       "sync.method=distro", "distro.overlap=1"});
  const membership::RecipePlan plan_{recipe_, method::tensors_of(recipe_)};
};

TEST_F(PlaceInLedger, IsTheLastRoundOfWhichNothingIsInFlight) {
  const auto place = place_of(view_, plan_, 3);
  ASSERT_TRUE(place);
  EXPECT_EQ(place->closed, view_.position(kClosing));
  EXPECT_EQ(place->settled, 1u);
  EXPECT_EQ(place->begun, 3u);
  EXPECT_EQ(place->opened, view_.position(kClosing + 2));
  EXPECT_TRUE(continues(view_, *place));
  EXPECT_FALSE(place_of(view_, plan_, 1)) << "all rounds are in flight";
  EXPECT_FALSE(place_of(view_, plan_, 4)) << "round 1 is not closed yet";
}

TEST_F(PlaceInLedger, IsGoneWhereItsRoundIsOpenedAnew) {
  const Place place = *place_of(view_, plan_, 3);
  view_.take(ledger_.open(3, 1));
  EXPECT_TRUE(continues(view_, place)) << "it had not begun round 3";
  view_.take(ledger_.open(2, 2));
  EXPECT_FALSE(continues(view_, place));
}

TEST_F(PlaceInLedger, IsGoneOnceNobodyReplaysItsRounds) {
  const Place place = *place_of(view_, plan_, 3);
  view_.take(ledger_.add({membership::Snapshot{0, kClosing + 1, {}, 10}}));
  EXPECT_TRUE(continues(view_, place));
  view_.take(ledger_.add({membership::Snapshot{0, kClosing + 2, {}, 10}}));
  EXPECT_FALSE(continues(view_, place));
}

TEST_F(PlaceInLedger, IsGoneInAnotherHistory) {
  const Place place = *place_of(view_, plan_, 3);
  Place closed = place;
  closed.closed.hash.bytes[0] ^= 1;
  EXPECT_FALSE(continues(view_, closed));
  Place opened = place;
  opened.opened.hash.bytes[0] ^= 1;
  EXPECT_FALSE(continues(view_, opened)) << "the round had another roster";
}

}  // namespace
}  // namespace thinwire::member
