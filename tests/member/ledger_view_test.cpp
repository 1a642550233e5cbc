#include "thinwire/member/ledger_view.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "thinwire/membership/ledger.h"

namespace thinwire::member {
namespace {

using membership::Record;
using Taken = LedgerView::Taken;

std::unique_ptr<Signer> signer_of(uint8_t number) {
  Seed seed{};
  seed[0] = number;
  return make_signer(seed);
}

// Writes a ledger, record by record.
class Ledger {
 public:
  explicit Ledger(uint64_t run = 7) : founding{run, {}, {}, 500, {signer_->key()}} {}

  Bytes add(std::vector<membership::Change> changes,
            std::optional<membership::Closing> closing = {},
            std::vector<membership::Opening> openings = {}) {
    Record record;
    record.sequence = ++last_;
    record.previous = hash_;
    record.writer = signer_->key();
    record.changes = std::move(changes);
    record.closing = std::move(closing);
    record.openings = std::move(openings);
    Bytes bytes = membership::encode_record(record, *signer_);
    hash_ = membership::record_hash(bytes);
    return bytes;
  }
  Bytes found() { return add({founding}); }
  Bytes admit(int member) {
    return add(
        {membership::Admission{member, signer_of(static_cast<uint8_t>(100 + member))->key()}});
  }
  // Member 0 trains in it alone.
  Bytes open(uint64_t round, uint32_t epoch) {
    membership::Opening opening;
    opening.round = round;
    opening.epoch = epoch;
    opening.first_step = round;
    opening.steps = {{0.5f, 0.5f}};
    opening.roster = {{0, {0, 4}, round}};
    return add({membership::PhaseChange{0, membership::Phase::kActive, {}}}, {}, {opening});
  }
  Bytes close(uint64_t round) { return add({}, membership::Closing{round, {}, {}}); }

 private:
  const std::unique_ptr<Signer> signer_ = signer_of(1);

 public:
  const membership::Founding founding;

 private:
  uint64_t last_ = 0;
  Sha256 hash_;
};

TEST(LedgerView, KeepsRoundsWithWhatWasDecided) {
  Ledger ledger;
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
  Ledger ledger;
  LedgerView view(ledger.founding);
  for (const Bytes& record : {ledger.found(), ledger.admit(0), ledger.open(0, 0)}) {
    EXPECT_EQ(view.take(record), Taken::kApplied);
    EXPECT_FALSE(view.opened_anew());
  }
  EXPECT_EQ(view.take(ledger.open(0, 1)), Taken::kApplied);
  EXPECT_EQ(view.opened_anew(), 0u);
  EXPECT_EQ(view.round(0)->opening.epoch, 1u);
  EXPECT_EQ(view.take(ledger.close(0)), Taken::kApplied);
  EXPECT_FALSE(view.opened_anew());
}

TEST(LedgerView, IgnoresJunkRepetitionsAndOtherRuns) {
  Ledger ledger;
  LedgerView view(ledger.founding);
  EXPECT_EQ(view.take({1, 2, 3}), Taken::kIgnored);
  EXPECT_EQ(view.take(Ledger(8).found()), Taken::kIgnored) << "of another run";
  Bytes forged = Ledger().found();
  forged.back() ^= 1;
  EXPECT_EQ(view.take(forged), Taken::kIgnored) << "not signed by its writer";
  const Bytes first = ledger.found();
  EXPECT_EQ(view.take(first), Taken::kApplied);
  EXPECT_EQ(view.take(first), Taken::kIgnored) << "known already";
}

TEST(LedgerView, BeginsAnewWhereTheHistoryIsAnotherOne) {
  Ledger ledger;
  LedgerView view(ledger.founding);
  EXPECT_EQ(view.take(ledger.found()), Taken::kApplied);
  EXPECT_EQ(view.take(ledger.admit(0)), Taken::kApplied);
  Ledger forked;
  const Bytes founding = forked.found();
  EXPECT_EQ(view.take(forked.add({membership::AgreedDigest{0, 1}})), Taken::kForked)
      << "record 2 is another one";
  EXPECT_EQ(view.state().position.sequence, 0u);
  EXPECT_EQ(view.take(founding), Taken::kApplied);
}

TEST(LedgerView, GivesTheRecordsThatAStoreLost) {
  Ledger ledger;
  LedgerView view(ledger.founding);
  const std::vector<Bytes> records = {ledger.found(), ledger.admit(0), ledger.open(0, 0)};
  for (const Bytes& record : records) view.take(record);
  EXPECT_EQ(view.records_from(2, 1 << 20), std::vector<Bytes>({records[1], records[2]}));
  EXPECT_EQ(view.records_from(1, records[0].size() + 4), std::vector<Bytes>({records[0]}))
      << "as many as there is room for";
  EXPECT_TRUE(view.records_from(4, 1 << 20).empty());
}

}  // namespace
}  // namespace thinwire::member
