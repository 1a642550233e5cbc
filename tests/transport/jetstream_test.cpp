#include "thinwire/transport/nats/jetstream.h"

#include <gtest/gtest.h>

#include "thinwire/base/bytes.h"

namespace thinwire::transport {
namespace {

Result<StoreMade> made(std::string_view text) { return parse_made(as_bytes(text)); }

TEST(Jetstream, SaysWhatBecameOfAStore) {
  EXPECT_EQ(made(R"({"config":{}})").value(), StoreMade::kMade);
  EXPECT_EQ(made(R"({"error":{"err_code":10058}})").value(), StoreMade::kDiffers);
  EXPECT_EQ(made(R"({"error":{"err_code":10005}})").value(), StoreMade::kTooFewServers);
  EXPECT_EQ(made(R"({"error":{"err_code":10074}})").value(), StoreMade::kNoCluster);
  EXPECT_EQ(made(R"({"error":{"err_code":10008}})").value(), StoreMade::kNotYet);
  EXPECT_EQ(made(R"({"error":{"err_code":10065}})").value(), StoreMade::kOverlaps);
  const auto other = made(R"({"error":{"err_code":10047,"description":"no room"}})");
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().message, "the server says: no room");
  EXPECT_FALSE(made("[]"));
}

TEST(Jetstream, ReadsTheLastSequenceOfAStore) {
  const auto last = [](std::string_view text) { return parse_last_sequence(as_bytes(text)); };
  EXPECT_EQ(last(R"({"state":{"last_seq":7}})").value(), 7u);
  for (const char* text : {"", "{}", R"({"state":7})", R"({"state":{"last_seq":-1}})",
                           R"({"error":{"err_code":10059}})"}) {
    EXPECT_FALSE(last(text)) << text;
  }
}

// Failed writes of other kinds have the same code.
TEST(Jetstream, OnlyAChunkThatIsThereAlreadyCountsAsStored) {
  const auto stored = [](std::string_view text) { return parse_store_answer(as_bytes(text)); };
  EXPECT_EQ(stored(R"({"stream":"run-blobs","seq":7})").value(), 7u);
  EXPECT_TRUE(stored(R"({"error":{"code":503,"err_code":10077,)"
                     R"("description":"maximum messages per subject exceeded"},"seq":0})"));
  for (const char* text : {R"({"error":{"code":503,"err_code":10077},"seq":0})",
                           R"({"error":{"code":503,"err_code":10077,)"
                           R"("description":"open 1.blk: too many open files"},"seq":0})"}) {
    const auto answer = stored(text);
    ASSERT_FALSE(answer) << text;
    EXPECT_EQ(answer.error().kind, FailureKind::kRefused);
  }
}

TEST(Jetstream, OnlyItsOwnNoticeSaysThatALeaderWasElected) {
  const auto says = [](std::string_view text) { return is_election_notice(as_bytes(text)); };
  EXPECT_TRUE(says(R"({"type":"io.nats.jetstream.advisory.v1.stream_leader_elected"})"));
  EXPECT_FALSE(says(R"({"stream":"run-blobs","seq":1})")) << "the answer to a chunk";
  EXPECT_FALSE(says(R"({"type":7})"));
  EXPECT_FALSE(says(""));
}

TEST(Jetstream, KnowsAnAnswerOfServersThatCannotAnswer) {
  const auto says = [](std::string_view text) { return is_unavailable(as_bytes(text)); };
  EXPECT_TRUE(says(R"({"error":{"code":503,"err_code":10008}})"));
  EXPECT_FALSE(says(R"({"error":{"code":503,"err_code":10077}})"));
  EXPECT_FALSE(says(R"({"stream":"run-blobs","seq":1})"));
  EXPECT_FALSE(says(""));
}

}  // namespace
}  // namespace thinwire::transport
