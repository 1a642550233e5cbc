#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "thinwire/base/bytes.h"
#include "thinwire/serve/unused_snapshots.h"

namespace thinwire::serve {
namespace {

using Chunk = StoredChunk;

constexpr uint64_t kAllCounted = UINT64_MAX;  // nothing is late

Sha256 name(std::string_view text) { return sha256(as_bytes(text)); }

TEST(UnusedPayloads, ArePayloadsOfRoundsThatNobodyReplays) {
  ChunkUses uses;
  UnusedPayloads payloads(uses);
  payloads.offered(0, "a", {name("0"), name("1")});
  payloads.offered(1, "a", {name("2")});
  payloads.closed(0, 10);
  payloads.closed(1, 12);
  EXPECT_THAT(payloads.take(9, kAllCounted), testing::IsEmpty());
  EXPECT_THAT(payloads.take(11, kAllCounted),
              testing::UnorderedElementsAre(Chunk{"a", name("0")}, Chunk{"a", name("1")}));
  EXPECT_THAT(payloads.take(11, kAllCounted), testing::IsEmpty()) << "each is returned once";
  EXPECT_THAT(payloads.take(12, kAllCounted), testing::ElementsAre(Chunk{"a", name("2")}));
}

TEST(UnusedPayloads, AreNotThoseOfOpenRounds) {
  ChunkUses uses;
  UnusedPayloads payloads(uses);
  payloads.offered(0, "a", {name("0")});
  EXPECT_THAT(payloads.take(100, kAllCounted), testing::IsEmpty());
}

TEST(UnusedPayloads, AreNotThoseThatMayStillCountInALaterRound) {
  ChunkUses uses;
  UnusedPayloads payloads(uses);
  payloads.offered(0, "a", {name("0")});
  payloads.offered(1, "a", {name("1")});
  payloads.closed(0, 10);
  payloads.closed(1, 11);
  EXPECT_THAT(payloads.take(11, 0), testing::IsEmpty());
  EXPECT_THAT(payloads.take(11, 1), testing::ElementsAre(Chunk{"a", name("0")}));
  EXPECT_THAT(payloads.take(11, 2), testing::ElementsAre(Chunk{"a", name("1")}));
}

TEST(UnusedPayloads, AreNotWhatALaterRoundHasToo) {
  ChunkUses uses;
  UnusedPayloads payloads(uses);
  payloads.offered(0, "a", {name("same")});
  payloads.offered(0, "b", {name("same")});
  payloads.offered(1, "a", {name("same")});
  payloads.closed(0, 10);
  EXPECT_THAT(payloads.take(10, kAllCounted), testing::ElementsAre(Chunk{"b", name("same")}));
  payloads.closed(1, 11);
  EXPECT_THAT(payloads.take(11, kAllCounted), testing::ElementsAre(Chunk{"a", name("same")}));
}

TEST(UnusedPayloads, MayBeKnownOnlyOnceNobodyReplaysThem) {
  ChunkUses uses;
  UnusedPayloads payloads(uses);
  payloads.closed(0, 10);
  payloads.closed(1, 12);
  EXPECT_THAT(payloads.take(11, kAllCounted), testing::IsEmpty());
  payloads.offered(0, "a", {name("0")});
  payloads.offered(1, "a", {name("1")});
  EXPECT_THAT(payloads.take(11, kAllCounted), testing::ElementsAre(Chunk{"a", name("0")}));
}

}  // namespace
}  // namespace thinwire::serve
