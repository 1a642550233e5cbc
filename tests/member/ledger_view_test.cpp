#include "thinwire/member/ledger_view.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "tests/member/written_ledger.h"
#include "thinwire/membership/ledger.h"

namespace thinwire::member {
namespace {

using Taken = LedgerView::Taken;

TEST(LedgerView, KeepsRoundsWithWhatWasDecided) {
  WrittenLedger ledger;
  LedgerView view(ledger.founding);
  EXPECT_EQ(view.take(ledger.found()), Taken::kApplied);
  EXPECT_EQ(view.take(ledger.admit(0)), Taken::kApplied);
  EXPECT_EQ(view.round(0), nullptr);
  EXPECT_EQ(view.take(ledger.open(0, 0)), Taken::kApplied);
  ASSERT_NE(view.round(0), nullptr);
  EXPECT_FALSE(view.round(0)->closing);
  EXPECT_EQ(view.take(ledger.close(0)), Taken::kApplied);
  EXPECT_TRUE(view.round(0)->closing);
  EXPECT_EQ(view.round(0)->closed_at, 4u);
  EXPECT_EQ(view.state().position.sequence, 4u);
  EXPECT_EQ(view.position(4), view.state().position);
}

TEST(LedgerView, SaysWhichRoundIsOpenedAnew) {
  WrittenLedger ledger;
  LedgerView view(ledger.founding);
  for (const Bytes& record : {ledger.found(), ledger.admit(0), ledger.open(0, 0)}) {
    EXPECT_EQ(view.take(record), Taken::kApplied);
    EXPECT_FALSE(view.reopened());
  }
  EXPECT_EQ(view.take(ledger.open(0, 1)), Taken::kApplied);
  EXPECT_EQ(view.reopened(), 0u);
  EXPECT_EQ(view.round(0)->opening.epoch, 1u);
  EXPECT_EQ(view.take(ledger.close(0)), Taken::kApplied);
  EXPECT_FALSE(view.reopened());
}

TEST(LedgerView, IgnoresJunkRepetitionsAndOtherRuns) {
  WrittenLedger ledger;
  LedgerView view(ledger.founding);
  EXPECT_EQ(view.take({1, 2, 3}), Taken::kIgnored);
  EXPECT_EQ(view.take(WrittenLedger(8).found()), Taken::kIgnored) << "of another run";
  Bytes forged = WrittenLedger().found();
  forged.back() ^= 1;
  EXPECT_EQ(view.take(forged), Taken::kIgnored) << "not signed by its writer";
  const Bytes first = ledger.found();
  EXPECT_EQ(view.take(first), Taken::kApplied);
  EXPECT_EQ(view.take(first), Taken::kIgnored) << "known already";
}

// Members can get what they sign into the stream; that does not make it another history.
TEST(LedgerView, IgnoresWhatStrangersSign) {
  WrittenLedger ledger;
  LedgerView view(ledger.founding);
  for (const Bytes& record : {ledger.found(), ledger.admit(0)}) {
    EXPECT_EQ(view.take(record), Taken::kApplied);
  }
  const auto stranger = signer_of(100);
  membership::Record record;
  record.writer = stranger->key();
  for (const uint64_t sequence : {0, 1, 2, 3, 4}) {
    record.sequence = sequence;
    EXPECT_EQ(view.take(membership::encode_record(record, *stranger)), Taken::kIgnored) << sequence;
  }
  EXPECT_EQ(view.state().position.sequence, 2u);
}

TEST(LedgerView, BeginsAnewWhereTheHistoryIsAnotherOne) {
  WrittenLedger ledger;
  LedgerView view(ledger.founding);
  EXPECT_EQ(view.take(ledger.found()), Taken::kApplied);
  EXPECT_EQ(view.take(ledger.admit(0)), Taken::kApplied);
  WrittenLedger forked;
  const Bytes founding = forked.found();
  EXPECT_EQ(view.take(forked.add({membership::AgreedDigest{0, 1}})), Taken::kForked)
      << "record 2 is another one";
  EXPECT_EQ(view.state().position.sequence, 0u);
  EXPECT_EQ(view.take(founding), Taken::kApplied);
}

// Two records of one number, each for one of two members. Nobody applies both, or either twice.
TEST(LedgerView, FollowsOneOfTheHistoriesOfACoordinatorThatEquivocates) {
  WrittenLedger ledger;
  WrittenLedger other;
  LedgerView here(ledger.founding);
  LedgerView there(ledger.founding);
  for (const Bytes& record : {ledger.found(), ledger.admit(0)}) {
    EXPECT_EQ(here.take(record), Taken::kApplied);
    EXPECT_EQ(there.take(record), Taken::kApplied);
  }
  other.found();
  other.admit(0);
  const Bytes third = ledger.open(0, 0);
  EXPECT_EQ(here.take(third), Taken::kApplied);
  const Bytes other_third = other.admit(1);
  EXPECT_EQ(there.take(other_third), Taken::kApplied);

  EXPECT_EQ(here.take(other_third), Taken::kForked);
  EXPECT_EQ(here.state().position.sequence, 0u) << "nothing of either is left";
  EXPECT_EQ(here.fork().sequence, 3u);
  EXPECT_EQ(here.fork().writer, signer_of(1)->key());
  EXPECT_EQ(here.take(third), Taken::kIgnored) << "it follows nothing that was not read";
  EXPECT_EQ(there.take(ledger.close(0)), Taken::kForked) << "it goes on from the other record 3";
  EXPECT_EQ(there.fork().sequence, 3u);
}

TEST(LedgerView, GivesTheRecordsThatAStoreLost) {
  WrittenLedger ledger;
  LedgerView view(ledger.founding);
  const std::vector<Bytes> records = {ledger.found(), ledger.admit(0), ledger.open(0, 0)};
  for (const Bytes& record : records) view.take(record);
  EXPECT_EQ(view.records_from(2, 1 << 20), std::vector<Bytes>({records[1], records[2]}));
  EXPECT_EQ(view.records_from(1, records[0].size() + 4), std::vector<Bytes>({records[0]}))
      << "as many as fit";
  EXPECT_TRUE(view.records_from(4, 1 << 20).empty());
}

}  // namespace
}  // namespace thinwire::member
