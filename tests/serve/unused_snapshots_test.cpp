#include "thinwire/serve/unused_snapshots.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "thinwire/base/bytes.h"

namespace thinwire::serve {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

Sha256 name(std::string_view text) { return sha256(as_bytes(text)); }
transport::BlobId blob(std::string_view text) { return {name(text), 1000}; }

class SnapshotsCase : public testing::Test {
 protected:
  // Snapshots 10, 20 and 30 of a; the last two have a chunk in common.
  void SetUp() override {
    snapshots_.taken(10, blob("first"), "a");
    snapshots_.taken(20, blob("second"), "a");
    snapshots_.taken(30, blob("third"), "a");
    while (snapshots_.next_unlisted()) continue;
    snapshots_.listed(blob("first"), {name("1")});
    snapshots_.listed(blob("second"), {name("2"), name("zeros"), name("zeros")});
    snapshots_.listed(blob("third"), {name("3"), name("zeros")});
  }
  ChunkUses uses_;
  UnusedSnapshots snapshots_{uses_};
};

TEST_F(SnapshotsCase, LeaveOnceNobodyBeginsWithThem) {
  EXPECT_THAT(snapshots_.take({10, 20, 30}), IsEmpty());
  EXPECT_THAT(snapshots_.take({20, 30}), ElementsAre(StoredChunk{"a", name("1")}));
  EXPECT_THAT(snapshots_.take({20, 30}), IsEmpty()) << "each is returned once";
}

TEST_F(SnapshotsCase, KeepTheChunksThatAnotherOneHas) {
  EXPECT_THAT(snapshots_.take({30}),
              UnorderedElementsAre(StoredChunk{"a", name("1")}, StoredChunk{"a", name("2")}));
  EXPECT_THAT(snapshots_.take({}),
              UnorderedElementsAre(StoredChunk{"a", name("3")}, StoredChunk{"a", name("zeros")}));
}

TEST_F(SnapshotsCase, KeepTheChunksThatAPayloadHas) {
  UnusedPayloads payloads(uses_);
  payloads.offered(0, "a", {name("1")});
  payloads.closed(0, 40);
  EXPECT_THAT(snapshots_.take({20, 30}), IsEmpty());
  EXPECT_THAT(payloads.take(40, 1), ElementsAre(StoredChunk{"a", name("1")}));
}

TEST_F(SnapshotsCase, LeaveEveryHolder) {
  snapshots_.taken(10, blob("first"), "b");
  EXPECT_THAT(snapshots_.take({20, 30}),
              UnorderedElementsAre(StoredChunk{"a", name("1")}, StoredChunk{"b", name("1")}));
}

TEST_F(SnapshotsCase, AreWaitedForUntilTheirChunksAreKnown) {
  snapshots_.taken(40, blob("fourth"), "a");
  EXPECT_FALSE(snapshots_.is_complete({30, 40}));
  const auto unlisted = snapshots_.next_unlisted();
  ASSERT_TRUE(unlisted);
  EXPECT_EQ(unlisted->content, blob("fourth"));
  EXPECT_FALSE(snapshots_.next_unlisted());
  snapshots_.not_listed(blob("fourth"));
  EXPECT_TRUE(snapshots_.next_unlisted()) << "it is asked for again";
  snapshots_.listed(blob("fourth"), {name("4")});
  EXPECT_TRUE(snapshots_.is_complete({30, 40}));
}

}  // namespace
}  // namespace thinwire::serve
