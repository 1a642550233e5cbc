#include "thinwire/membership/ledger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "memory_ledger.h"
#include "sample_record.h"

namespace thinwire::membership {
namespace {

std::string refusal(std::span<const uint8_t> bytes) {
  const Result<Record> record = decode_record(bytes);
  return record ? "" : record.error().message;
}

TEST(LedgerRecord, ArrivesAsItWasWritten) {
  const Bytes bytes = encode_record(full_record(), FakeSigner(0));
  const Result<Record> record = decode_record(bytes);
  ASSERT_TRUE(record) << record.error().message;
  EXPECT_EQ(*record, full_record());
}

// docs/formats.md.
TEST(LedgerRecord, BytesAreAsDocumented) {
  Record record;
  record.sequence = 2;
  record.writer = fake_key(1);
  record.changes = {PhaseChange{3, Phase::kCatchingUp, 4}, Offence{5, OffenceKind::kConduct}};
  const Bytes bytes = encode_record(record, FakeSigner(1));
  Bytes expected = {'T', 'W', 'L', 'R', 2, 0, 2, 0, 0, 0, 0, 0, 0, 0};
  expected.resize(14 + 32);                                   // the record before
  expected.insert(expected.end(), {1, 0, 0, 0, 0, 0, 0, 0});  // the writer
  expected.resize(14 + 64);
  expected.insert(expected.end(), {2, 0, 0, 0,              // changes
                                   3, 3, 0, 0, 0, 1, 1,     // member 3 catches up
                                   4, 0, 0, 0, 0, 0, 0, 0,  // with snapshot 4
                                   6, 5, 0, 0, 0, 1,        // misconduct of member 5
                                   0, 0, 0, 0, 0});         // no closing, no openings
  ASSERT_EQ(bytes.size(), expected.size() + 64);
  EXPECT_EQ(Bytes(bytes.begin(), bytes.end() - 64), expected);
}

TEST(LedgerRecord, DamageIsRefusedAndNamed) {
  const Bytes good = encode_record(full_record(), FakeSigner(0));
  Bytes bytes = good;
  bytes[0] = 'X';
  EXPECT_THAT(refusal(bytes), testing::HasSubstr("does not begin with TWLR"));
  bytes = good;
  bytes[4] = 9;
  EXPECT_THAT(refusal(bytes), testing::HasSubstr("version 9, this program's is 2"));
  bytes = good;
  bytes[78] = 255;  // the number of changes
  bytes[81] = 255;
  EXPECT_THAT(refusal(bytes), testing::HasSubstr("longer than the record"));
  bytes = good;
  bytes.push_back(0);
  EXPECT_THAT(refusal(bytes), testing::HasSubstr("bytes follow its end"));
  EXPECT_THAT(refusal(std::span(good).first(20)), testing::HasSubstr("truncated"));
}

TEST(LedgerRecord, NoPartOfItDecodes) {
  const Bytes good = encode_record(full_record(), FakeSigner(0));
  for (size_t size = 0; size < good.size(); ++size) {
    EXPECT_NE(refusal(std::span(good).first(size)), "") << size;
  }
}

TEST(LedgerRecord, NumbersThatAreNoneAreRefused) {
  Record record = full_record();
  const Bytes good = encode_record(record, FakeSigner(0));
  const float rate = 0.75f;
  const auto at = std::ranges::search(good, as_bytes(std::span<const float>(&rate, 1)));
  ASSERT_FALSE(at.empty());
  Bytes bytes = good;
  bytes[static_cast<size_t>(at.begin() - good.begin()) + 3] = 0x7f;
  bytes[static_cast<size_t>(at.begin() - good.begin()) + 2] = 0xc0;
  EXPECT_THAT(refusal(bytes), testing::HasSubstr("a learning rate is not finite"));
}

TEST(LedgerRecord, AnyChangedByteIsNoticed) {
  const std::unique_ptr<Signer> signer = make_signer(Seed{1, 2, 3});
  Record record = full_record();
  record.writer = signer->key();
  const Bytes good = encode_record(record, *signer);
  EXPECT_TRUE(is_authentic(good, record, verify));
  for (size_t at = 0; at < good.size(); at += 7) {
    Bytes bytes = good;
    bytes[at] ^= 4;
    EXPECT_FALSE(is_authentic(bytes, record, verify)) << at;
  }
}

// RFC 8032, 7.1, test 2.
TEST(Signature, IsEd25519) {
  const Seed seed = {0x4c, 0xcd, 0x08, 0x9b, 0x28, 0xff, 0x96, 0xda, 0x9d, 0xb6, 0xc3,
                     0x46, 0xec, 0x11, 0x4e, 0x0f, 0x5b, 0x8a, 0x31, 0x9f, 0x35, 0xab,
                     0xa6, 0x24, 0xda, 0x8c, 0xf6, 0xed, 0x4f, 0xb8, 0xa6, 0xfb};
  const std::unique_ptr<Signer> signer = make_signer(seed);
  EXPECT_EQ(signer->key().bytes[0], 0x3d);
  EXPECT_EQ(signer->key().bytes[31], 0x0c);
  const Bytes message = {0x72};
  const Signature signature = signer->sign(message);
  EXPECT_EQ(signature.bytes[0], 0x92);
  EXPECT_EQ(signature.bytes[63], 0x00);
  EXPECT_TRUE(verify(signer->key(), message, signature));
  EXPECT_FALSE(verify(signer->key(), Bytes{0x73}, signature));
  EXPECT_FALSE(verify(PublicKey{}, message, signature));
}

TEST(MemoryLedger, RefusesWhoeverDoesNotKnowTheLastRecord) {
  MemoryLedger ledger;
  EXPECT_EQ(ledger.append(0, Bytes{1}), MemoryLedger::Outcome::kStored);
  EXPECT_EQ(ledger.append(0, Bytes{2}), MemoryLedger::Outcome::kOutrun);
  EXPECT_EQ(ledger.append(1, Bytes{3}), MemoryLedger::Outcome::kStored);
  EXPECT_EQ(*ledger.read(2), Bytes{3});
  EXPECT_FALSE(ledger.read(3));
  EXPECT_FALSE(ledger.read(0));
}

TEST(MemoryLedger, LosesWithItsPowerWhatWasNotSynced) {
  MemoryLedger ledger;
  (void)ledger.append(0, Bytes{1});
  ledger.sync();
  (void)ledger.append(1, Bytes{2});
  ledger.set_full(true);
  EXPECT_EQ(ledger.append(2, Bytes{3}), MemoryLedger::Outcome::kFailed);
  EXPECT_EQ(ledger.cut_power(), std::vector<Bytes>{Bytes{2}});
  EXPECT_EQ(ledger.last(), 1u);
}

}  // namespace
}  // namespace thinwire::membership
