#include <gtest/gtest.h>

#include <algorithm>
#include <span>

#include "thinwire/base/error.h"
#include "thinwire/base/rng.h"
#include "thinwire/membership/ledger.h"

namespace thinwire::membership {
namespace {

constexpr size_t kHead = 4 + 2 + 32 + 8 + 4;

Bytes record_of(size_t bytes) {
  Rng rng(bytes, 1);
  Bytes record(bytes);
  for (uint8_t& byte : record) byte = static_cast<uint8_t>(rng.bits());
  return record;
}

std::optional<Bytes> join(RecordJoiner& joiner, const std::vector<Bytes>& messages) {
  std::optional<Bytes> last;
  for (const Bytes& message : messages) last = joiner.take(message);
  return last;
}

TEST(RecordParts, AreOfRecordsThatAreTooLongOnly) {
  const Bytes record = record_of(kMaxRecordMessage);
  EXPECT_EQ(messages_of(record), std::vector<Bytes>{record});
  EXPECT_EQ(RecordJoiner().take(record), record);
  EXPECT_EQ(messages_of(record_of(kMaxRecordMessage + 1)).size(), 2u);
}

// docs/formats.md.
TEST(RecordParts, BytesAreAsDocumented) {
  const Bytes record = record_of(300'000);
  const std::vector<Bytes> parts = messages_of(record);
  ASSERT_EQ(parts.size(), 2u);
  Bytes expected = {'T', 'W', 'L', 'P', 1, 0};
  const Sha256 name = sha256(record);
  expected.insert(expected.end(), name.bytes.begin(), name.bytes.end());
  expected.insert(expected.end(), {0xE0, 0x93, 4, 0, 0, 0, 0, 0,  // 300,000 bytes
                                   1, 0, 0, 0});
  expected.insert(expected.end(), record.begin() + (255 * 1024 - 50), record.end());
  EXPECT_EQ(parts.front().size(), 255u * 1024);
  EXPECT_EQ(parts.back(), expected);
}

TEST(RecordParts, MakeTheRecordInAnyOrderAndHoweverOftenTheyCome) {
  const Bytes record = record_of(2'000'000);
  std::vector<Bytes> parts = messages_of(record);
  RecordJoiner joiner;
  EXPECT_EQ(join(joiner, parts), record);
  std::ranges::reverse(parts);
  EXPECT_EQ(joiner.take(parts.front()), std::nullopt);
  EXPECT_EQ(join(joiner, parts), record);
  EXPECT_EQ(join(joiner, parts), record) << "nothing is left of the first time";
}

TEST(RecordParts, AreLeftBehindByTheNextRecord) {
  const Bytes record = record_of(600'000);
  const Bytes other = record_of(700'000);
  const Bytes small = record_of(100);
  const std::vector<Bytes> parts = messages_of(record);
  RecordJoiner joiner;
  joiner.take(parts[0]);
  EXPECT_EQ(joiner.held(sha256(record)), 1u);
  EXPECT_EQ(joiner.take(small), small);
  EXPECT_EQ(joiner.held(sha256(record)), 0u);
  joiner.take(parts[0]);
  joiner.take(parts[1]);
  EXPECT_EQ(joiner.held(sha256(record)), 2u);
  EXPECT_EQ(joiner.held(sha256(other)), 0u);
  EXPECT_EQ(join(joiner, messages_of(other)), other);
  EXPECT_EQ(joiner.take(parts[2]), std::nullopt);
}

TEST(RecordParts, ThatAreAlteredMakeNothing) {
  const Bytes record = record_of(600'000);
  std::vector<Bytes> parts = messages_of(record);
  parts[1][1000] ^= 1;
  RecordJoiner joiner;
  EXPECT_EQ(join(joiner, parts), std::nullopt);
  EXPECT_EQ(join(joiner, messages_of(record)), record);
}

TEST(RecordParts, ThatNoRecordHasAreDropped) {
  const Bytes record = record_of(600'000);
  const Bytes good = messages_of(record).front();
  const auto refuses = [&](size_t at, uint8_t byte) {
    Bytes part = good;
    part[at] = byte;
    RecordJoiner joiner;
    EXPECT_EQ(joiner.take(part), std::nullopt) << at;
    return joiner.held(sha256(record)) == 0;
  };
  EXPECT_TRUE(refuses(4, 2)) << "another version";
  EXPECT_TRUE(refuses(45, 1)) << "of a record of 2^56 bytes";
  EXPECT_TRUE(refuses(40, 0)) << "of one that needs no parts";
  EXPECT_TRUE(refuses(46, 2)) << "shorter than the last one";
  EXPECT_TRUE(refuses(46, 3)) << "behind the last one";
  for (const size_t bytes : {good.size() - 1, kHead, kHead - 1, size_t{4}}) {
    RecordJoiner joiner;
    EXPECT_EQ(joiner.take(Bytes(good.begin(), good.begin() + static_cast<ptrdiff_t>(bytes))),
              std::nullopt);
    EXPECT_EQ(joiner.held(sha256(record)), 0u) << bytes;
  }
}

TEST(RecordParts, EndWhereARecordIsTooLong) {
  Bytes record = record_of(kMaxRecordBytes);
  RecordJoiner joiner;
  EXPECT_EQ(join(joiner, messages_of(record)), record);
  record.push_back(0);
  EXPECT_THROW(messages_of(record), Error);
}

}  // namespace
}  // namespace thinwire::membership
