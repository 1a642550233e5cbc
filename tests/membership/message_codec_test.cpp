#include "thinwire/membership/message_codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "thinwire/base/bytes.h"

namespace thinwire::membership {
namespace {

constexpr uint64_t kRun = 0x1122334455667788;

std::unique_ptr<Signer> signer_of(uint8_t number) {
  Seed seed{};
  seed[0] = number;
  return make_signer(seed);
}

const Signer& signer() {
  static const std::unique_ptr<Signer> one = signer_of(1);
  return *one;
}

Sha256 hash_of(std::string_view text) { return sha256(as_bytes(text)); }

// One of each kind, with every field set.
std::vector<Message> all_messages() {
  const Position position{12, hash_of("record")};
  const AgreedDigest digest{5, 0xfedcba9876543210};
  return {JoinRequest{signer().key(), position, 1.25e6, 4000},
          Report{3, position, digest},
          Offer{3, 6, 2, 9, hash_of("payload"), 4096, {0.75, 90, 12.5}},
          LeaveNotice{3},
          SnapshotReady{{3, 11, hash_of("snapshot"), 1 << 20}, digest, hash_of("record")},
          Supply{3, {{1, 2, 3}, {}, {4}}},
          Misconduct{4, "its payload does not decode"},
          AskRecords{3, 8},
          AskSnapshot{3},
          Refuse{signer().key(), "the run is full"},
          Lacking{hash_of("payload")},
          Loss{3, 40, "validation", 9216.5, 4096},
          Announcement{{3, 6, 2, 9, hash_of("payload"), 4096, {0.75}}},
          Sum{6, 9, hash_of("contributions"), WireType::kFp4, 1.5f, hash_of("sum"), 4096},
          Audit{3, 6, 9, -0.25, std::nullopt},
          Audit{3, 6, 9, 0.75, 0.001},
          Overtaken{{1, 2, 3}},
          Waiting{"room on its disk"}};
}

Bytes encode(const Message& message) {
  return encode_statement({kRun, signer().key(), 77, message}, signer());
}

TEST(Statement, IsReadAsItWasSaid) {
  for (const Message& message : all_messages()) {
    const Bytes bytes = encode(message);
    const auto statement = decode_statement(bytes, kRun, verify);
    ASSERT_TRUE(statement) << statement.error().message;
    EXPECT_EQ(statement->number, 77u);
    EXPECT_EQ(statement->author, signer().key());
    EXPECT_EQ(statement->message.index(), message.index());
    EXPECT_EQ(encode_statement(*statement, signer()), bytes);
  }
}

TEST(Statement, WithoutItsOptionalParts) {
  for (const Message& message :
       {Message(JoinRequest{signer().key(), std::nullopt, 0}),
        Message(Report{0, std::nullopt, std::nullopt}), Message(Supply{0, {}})}) {
    const Bytes bytes = encode(message);
    const auto statement = decode_statement(bytes, kRun, verify);
    ASSERT_TRUE(statement) << statement.error().message;
    EXPECT_EQ(encode_statement(*statement, signer()), bytes);
  }
}

// The bytes of docs/formats.md, put together by hand.
TEST(Statement, HasTheBytesThatAreDescribed) {
  const Bytes bytes = encode(Offer{3, 6, 2, 9, hash_of("payload"), 4096, {0.75, 90, 12.5}});
  Bytes expected;
  ByteWriter writer(expected);
  writer.put_bytes(as_bytes("TWMS"));
  writer.put(uint16_t{1});
  writer.put(kRun);
  writer.put_bytes(signer().key().bytes);
  writer.put(uint64_t{77});
  writer.put(uint8_t{3});
  writer.put(int32_t{3});
  writer.put(uint64_t{6});
  writer.put(uint32_t{2});
  writer.put(uint32_t{9});
  writer.put_bytes(hash_of("payload").bytes);
  writer.put(uint64_t{4096});
  writer.put(0.75);
  writer.put(90.0);
  writer.put(12.5);
  writer.put_bytes(signer().sign(expected).bytes);
  EXPECT_EQ(bytes, expected);
}

TEST(Statement, TruncatedOrTooLongIsRefused) {
  for (const Message& message : all_messages()) {
    Bytes bytes = encode(message);
    for (size_t size = 0; size < bytes.size(); ++size) {
      EXPECT_FALSE(decode_statement(std::span(bytes).first(size), kRun, verify)) << size;
    }
    bytes.push_back(0);
    EXPECT_FALSE(decode_statement(bytes, kRun, verify));
  }
}

TEST(Statement, AlteredAnywhereIsRefused) {
  for (const Message& message : all_messages()) {
    const Bytes bytes = encode(message);
    for (size_t at = 0; at < bytes.size(); ++at) {
      Bytes altered = bytes;
      altered[at] ^= 1;
      EXPECT_FALSE(decode_statement(altered, kRun, verify)) << "byte " << at;
    }
  }
}

TEST(Statement, OfAnotherRunIsStale) {
  const auto statement = decode_statement(encode(LeaveNotice{3}), kRun + 1, verify);
  ASSERT_FALSE(statement);
  EXPECT_EQ(statement.error().kind, FailureKind::kStaleRound);
}

TEST(Statement, InAnothersNameIsRefused) {
  // It names key 2 as its author and is signed by key 1.
  class Pretender final : public Signer {
   public:
    PublicKey key() const override { return signer_of(2)->key(); }
    Signature sign(std::span<const uint8_t> message) const override {
      return signer().sign(message);
    }
  };
  const Pretender pretender;
  const Bytes bytes = encode_statement({kRun, pretender.key(), 1, LeaveNotice{3}}, pretender);
  EXPECT_FALSE(decode_statement(bytes, kRun, verify));
}

TEST(Statement, AmountsAreNumbersOfAtLeastZero) {
  const auto accepts_all = [](const PublicKey&, std::span<const uint8_t>, const Signature&) {
    return true;
  };
  Bytes bytes = encode(JoinRequest{signer().key(), std::nullopt, 8});
  const size_t at = bytes.size() - sizeof(Signature::bytes) - sizeof(uint64_t) - sizeof(double);
  for (const double wrong :
       {-1.0, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    std::memcpy(bytes.data() + at, &wrong, sizeof(wrong));
    const auto statement = decode_statement(bytes, kRun, accepts_all);
    ASSERT_FALSE(statement);
    EXPECT_THAT(statement.error().message, testing::HasSubstr("amount"));
  }
}

TEST(Statement, OnlyCoordinatorsAskRefuseAccuseAndSum) {
  std::vector<bool> coordinators;
  std::vector<int> senders;
  for (const Message& message : all_messages()) {
    coordinators.push_back(is_from_coordinator(message));
    senders.push_back(sender(message));
  }
  EXPECT_THAT(coordinators,
              testing::ElementsAre(false, false, false, false, false, false, true, true, true, true,
                                   false, false, false, true, false, false, false, true));
  EXPECT_THAT(senders, testing::ElementsAre(-1, 3, 3, 3, 3, 3, -1, -1, -1, -1, -1, 3, 3, -1, -1, -1,
                                            -1, -1));
}

TEST(StatementNumbers, Ascend) {
  StatementNumbers numbers;
  uint64_t last = 0;
  for (int i = 0; i < 1000; ++i) {
    const uint64_t next = numbers.next();
    EXPECT_GT(next, last);
    last = next;
  }
}

TEST(StatementNumbers, GoOnFromWhatWasUsedBefore) {
  StatementNumbers numbers;
  const uint64_t before = numbers.next();
  const uint64_t hour_ahead = before + 3'600'000'000;
  EXPECT_TRUE(numbers.go_on_from(hour_ahead));
  EXPECT_EQ(numbers.next(), hour_ahead + 1);
  EXPECT_FALSE(numbers.go_on_from(before)) << "that is long ago";
  EXPECT_EQ(numbers.next(), hour_ahead + 2);
}

TEST(ReplayWindow, SaysWhatHasOvertakenAStatement) {
  ReplayWindow window;
  const PublicKey author = signer().key();
  const Bytes later = {1, 2, 3};
  constexpr uint64_t kNewest = 1001 + ReplayWindow::kClockAhead;
  EXPECT_TRUE(window.is_new(author, kNewest - 1, later));
  EXPECT_TRUE(window.is_new(author, kNewest, Bytes(ReplayWindow::kMaxKept + 1)))
      << "too long to keep";
  EXPECT_FALSE(window.overtaken(author, kNewest - 1)) << "it arrived twice";
  EXPECT_FALSE(window.overtaken(author, kNewest - ReplayWindow::kWidth)) << "it arrived late";
  EXPECT_FALSE(window.overtaken(author, 1002)) << "it arrived late";
  EXPECT_FALSE(window.is_new(author, 1000, {}));
  const auto overtaken = window.overtaken(author, 1000);
  ASSERT_TRUE(overtaken);
  EXPECT_EQ(overtaken->later, later);
  EXPECT_FALSE(window.overtaken(signer_of(2)->key(), 1000));
}

// A receiver that was stopped for a while finds old statements beside newer ones.
TEST(ReplayWindow, TellsAClockThatWasAheadFromStatementsThatAreLate) {
  ReplayWindow window;
  const PublicKey author = signer().key();
  constexpr uint64_t kNow = 1'000'000'000;
  EXPECT_FALSE(window.is_ahead(author, 1000)) << "it has said nothing";
  EXPECT_TRUE(window.is_new(author, kNow, Bytes{1}));
  EXPECT_FALSE(window.is_new(author, kNow - 2 * ReplayWindow::kClockAhead, {}));
  EXPECT_TRUE(window.overtaken(author, kNow - 2 * ReplayWindow::kClockAhead));
  EXPECT_FALSE(window.is_ahead(author, 1000)) << "it was said just now";
  EXPECT_FALSE(window.is_ahead(author, 991));
  EXPECT_TRUE(window.is_ahead(author, 990));
}

TEST(ReplayWindow, TakesEachNumberOnce) {
  ReplayWindow window;
  const PublicKey author = signer().key();
  EXPECT_TRUE(window.is_new(author, 1000, {}));
  EXPECT_FALSE(window.is_new(author, 1000, {}));
  EXPECT_TRUE(window.is_new(author, 1003, {}));
  EXPECT_TRUE(window.is_new(author, 1001, {})) << "it was overtaken";
  EXPECT_FALSE(window.is_new(author, 1001, {}));
  EXPECT_FALSE(window.is_new(author, 1003, {}));
  EXPECT_TRUE(window.is_new(author, 1003 - ReplayWindow::kWidth + 1, {}));
  EXPECT_FALSE(window.is_new(author, 1003 - ReplayWindow::kWidth, {})) << "too old to tell";
  EXPECT_TRUE(window.is_new(author, 5000, {}));
  EXPECT_FALSE(window.is_new(author, 1002, {}));
  EXPECT_TRUE(window.is_new(signer_of(2)->key(), 1000, {})) << "another author";
}

}  // namespace
}  // namespace thinwire::membership
