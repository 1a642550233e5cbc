#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "thinwire/base/bytes.h"
#include "thinwire/serve/store_cleaner.h"

namespace thinwire::serve {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr uint64_t kAllCounted = UINT64_MAX;  // nothing is late

transport::BlobId blob(std::string_view text) { return {sha256(as_bytes(text)), 1000}; }
Holding held(std::string_view text, const char* holder = "a") { return {holder, blob(text).name}; }

TEST(UnusedPayloads, ArePayloadsOfRoundsThatNobodyReplays) {
  UnusedPayloads payloads;
  payloads.offered(0, "a", blob("0"));
  payloads.offered(0, "a", blob("1"));
  payloads.offered(1, "a", blob("2"));
  payloads.closed(0, 10);
  payloads.closed(1, 12);
  EXPECT_THAT(payloads.take(9, kAllCounted), IsEmpty());
  EXPECT_THAT(payloads.take(11, kAllCounted), testing::UnorderedElementsAre(held("0"), held("1")));
  EXPECT_THAT(payloads.take(11, kAllCounted), IsEmpty()) << "each is returned once";
  EXPECT_THAT(payloads.take(12, kAllCounted), ElementsAre(held("2")));
}

TEST(UnusedPayloads, AreNotThoseOfOpenRounds) {
  UnusedPayloads payloads;
  payloads.offered(0, "a", blob("0"));
  EXPECT_THAT(payloads.take(100, kAllCounted), IsEmpty());
}

TEST(UnusedPayloads, AreNotThoseThatMayStillCountInALaterRound) {
  UnusedPayloads payloads;
  payloads.offered(0, "a", blob("0"));
  payloads.offered(1, "a", blob("1"));
  payloads.closed(0, 10);
  payloads.closed(1, 11);
  EXPECT_THAT(payloads.take(11, 0), IsEmpty());
  EXPECT_THAT(payloads.take(11, 1), ElementsAre(held("0")));
  EXPECT_THAT(payloads.take(11, 2), ElementsAre(held("1")));
}

TEST(UnusedPayloads, AreNotWhatALaterRoundHasToo) {
  UnusedPayloads payloads;
  payloads.offered(1, "a", blob("same"));
  payloads.offered(0, "a", blob("same"));
  payloads.offered(0, "b", blob("same"));
  payloads.closed(0, 10);
  EXPECT_THAT(payloads.take(10, kAllCounted), ElementsAre(held("same", "b")));
  payloads.closed(1, 11);
  EXPECT_THAT(payloads.take(11, kAllCounted), ElementsAre(held("same", "a")));
}

TEST(UnusedPayloads, MayBeKnownOnlyOnceNobodyReplaysThem) {
  UnusedPayloads payloads;
  payloads.closed(0, 10);
  payloads.closed(1, 12);
  EXPECT_THAT(payloads.take(11, kAllCounted), IsEmpty());
  payloads.offered(0, "a", blob("0"));
  payloads.offered(1, "a", blob("1"));
  EXPECT_THAT(payloads.take(11, kAllCounted), ElementsAre(held("0")));
}

TEST(UnusedPayloads, AreCountedUntilTheyAreSpent) {
  UnusedPayloads payloads;
  for (const uint64_t round : {0, 1}) {
    payloads.offered(round, "a", {blob("long").name, 3 * transport::kMaxMessageBytes});
  }
  payloads.offered(0, "a", blob("short"));
  EXPECT_EQ(payloads.chunks(), 4u + 1);
  EXPECT_EQ(payloads.chunks_of(held("long")), 4u);
  payloads.closed(0, 10);
  payloads.take(10, kAllCounted);
  EXPECT_EQ(payloads.chunks(), 4u);
  EXPECT_EQ(payloads.chunks_of(held("short")), 0u);
}

}  // namespace
}  // namespace thinwire::serve
