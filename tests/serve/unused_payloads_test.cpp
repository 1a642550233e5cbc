#include "thinwire/serve/unused_payloads.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "thinwire/base/bytes.h"

namespace thinwire::serve {
namespace {

using Chunk = StoredChunk;

Sha256 name(std::string_view text) { return sha256(as_bytes(text)); }

TEST(UnusedPayloads, ArePayloadsOfRoundsThatNobodyReplays) {
  ChunkUses uses;
  UnusedPayloads payloads(uses);
  payloads.offered(0, "a", {name("0"), name("1")});
  payloads.offered(1, "a", {name("2")});
  payloads.closed(0, 10);
  payloads.closed(1, 12);
  EXPECT_THAT(payloads.take(9), testing::IsEmpty());
  EXPECT_THAT(payloads.take(11),
              testing::UnorderedElementsAre(Chunk{"a", name("0")}, Chunk{"a", name("1")}));
  EXPECT_THAT(payloads.take(11), testing::IsEmpty()) << "each is returned once";
  EXPECT_THAT(payloads.take(12), testing::ElementsAre(Chunk{"a", name("2")}));
}

TEST(UnusedPayloads, AreNotThoseOfOpenRounds) {
  ChunkUses uses;
  UnusedPayloads payloads(uses);
  payloads.offered(0, "a", {name("0")});
  EXPECT_THAT(payloads.take(100), testing::IsEmpty());
}

TEST(UnusedPayloads, AreNotWhatALaterRoundHasToo) {
  ChunkUses uses;
  UnusedPayloads payloads(uses);
  payloads.offered(0, "a", {name("same")});
  payloads.offered(0, "b", {name("same")});
  payloads.offered(1, "a", {name("same")});
  payloads.closed(0, 10);
  EXPECT_THAT(payloads.take(10), testing::ElementsAre(Chunk{"b", name("same")}));
  payloads.closed(1, 11);
  EXPECT_THAT(payloads.take(11), testing::ElementsAre(Chunk{"a", name("same")}));
}

TEST(UnusedPayloads, MayBeKnownOnlyOnceNobodyReplaysThem) {
  ChunkUses uses;
  UnusedPayloads payloads(uses);
  payloads.closed(0, 10);
  payloads.closed(1, 12);
  EXPECT_THAT(payloads.take(11), testing::IsEmpty());
  payloads.offered(0, "a", {name("0")});
  payloads.offered(1, "a", {name("1")});
  EXPECT_THAT(payloads.take(11), testing::ElementsAre(Chunk{"a", name("0")}));
}

}  // namespace
}  // namespace thinwire::serve
