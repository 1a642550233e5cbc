#include "thinwire/transport/courier/blob_transfers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "thinwire/transport/courier/blob.h"

namespace thinwire::transport {
namespace {

using testing::ElementsAre;

constexpr double kTimeout = 10;

struct Asked {
  uint64_t ticket;
  Sha256 name;
  std::string holder;
};

// Only notes what is asked for; the tests answer.
class NotedWire final : public ChunkWire {
 public:
  void store(uint64_t ticket, const Chunk& chunk) override {
    stored.push_back({ticket, chunk.bytes.size()});
  }
  void fetch(uint64_t ticket, const ChunkKey& key, const std::string& holder) override {
    asked.push_back({ticket, key.chunk, holder});
  }
  std::vector<std::string> holders() const {
    std::vector<std::string> names;
    for (const Asked& one : asked) names.push_back(one.holder);
    return names;
  }
  std::vector<Asked> asked;
  struct Stored {
    uint64_t ticket;
    size_t bytes;
  };
  std::vector<Stored> stored;
};

class BlobFetches : public testing::Test {
 protected:
  void get(std::vector<std::string> holders) {
    transfers_.get(0, blob_id(blob_).name, blob_id(blob_), std::move(holders), Priority::kRound,
                   [this](Result<Bytes> got) { answers_.push_back(std::move(got)); });
  }
  void tell_answers() {
    for (const auto& answer : transfers_.take_answers()) answer();
  }
  void answer_last(Result<Bytes> chunk) {
    transfers_.fetched(1, wire_.asked.back().ticket, std::move(chunk));
    tell_answers();
  }
  std::string other_than_first() const { return wire_.asked.front().holder == "a" ? "b" : "a"; }

  const Bytes blob_ = {1, 2, 3};
  NotedWire wire_;
  BlobTransfers transfers_{wire_, kTimeout, 1 << 20};
  std::vector<Result<Bytes>> answers_;
};

TEST_F(BlobFetches, AskTheNextHolderWhenOneDoesNotAnswer) {
  get({"a", "b"});
  transfers_.expire(kTimeout);
  tell_answers();
  EXPECT_TRUE(answers_.empty());
  EXPECT_THAT(wire_.holders(), ElementsAre(wire_.asked.front().holder, other_than_first()));
  answer_last(blob_);
  ASSERT_EQ(answers_.size(), 1u);
  EXPECT_EQ(answers_.front(), blob_);
}

TEST_F(BlobFetches, AskTheHoldersOfALaterCall) {
  get({"a"});
  get({"a", "b"});
  EXPECT_THAT(wire_.holders(), ElementsAre("a"));
  answer_last(fail(FailureKind::kLostPeer, "not here"));
  EXPECT_TRUE(answers_.empty());
  EXPECT_THAT(wire_.holders(), ElementsAre("a", "b"));
  answer_last(blob_);
  ASSERT_EQ(answers_.size(), 2u);
  for (const Result<Bytes>& got : answers_) EXPECT_EQ(got, blob_);
}

// Whoever did not answer may have it.
TEST_F(BlobFetches, SayThatSomebodyDidNotAnswerRatherThanThatNobodyHasIt) {
  get({"a", "b"});
  transfers_.expire(kTimeout);
  answer_last(fail(FailureKind::kLostPeer, "not here"));
  ASSERT_EQ(answers_.size(), 1u);
  EXPECT_EQ(answers_.front().error().kind, FailureKind::kDeadline);
}

TEST_F(BlobFetches, FailOnceNobodyHasAnswered) {
  get({"a", "b"});
  transfers_.expire(kTimeout);
  transfers_.expire(2 * kTimeout);
  tell_answers();
  ASSERT_EQ(answers_.size(), 1u);
  EXPECT_EQ(answers_.front().error().kind, FailureKind::kDeadline);
  EXPECT_EQ(wire_.asked.size(), 2u) << "each holder is asked once";
}

// The first one waits for the time-out, and all others of these holders do not.
TEST_F(BlobFetches, AskASilentHolderLast) {
  get({"a", "b"});
  const std::string silent = wire_.asked.front().holder;
  const std::string other = other_than_first();
  transfers_.expire(kTimeout);
  answer_last(blob_);
  wire_.asked.clear();
  for (uint8_t i = 0; i < 4; ++i) {
    const Bytes another = {i};
    transfers_.get(1, blob_id(another).name, blob_id(another), {"a", "b"}, Priority::kRound,
                   [](const Result<Bytes>&) {});
    EXPECT_EQ(wire_.asked.back().holder, other);
    answer_last(another);
  }
  const Bytes lost = {9};
  transfers_.get(1, blob_id(lost).name, blob_id(lost), {"a", "b"}, Priority::kRound,
                 [](const Result<Bytes>&) {});
  answer_last(fail(FailureKind::kLostPeer, "not here"));
  EXPECT_EQ(wire_.asked.back().holder, silent) << "after all others";
  answer_last(lost);
  std::set<std::string> first;
  for (uint8_t i = 0; i < 32; ++i) {
    const Bytes another = {7, i};
    transfers_.get(1, blob_id(another).name, blob_id(another), {"a", "b"}, Priority::kRound,
                   [](const Result<Bytes>&) {});
    first.insert(wire_.asked.back().holder);
    answer_last(another);
  }
  EXPECT_EQ(first.size(), 2u) << "it has answered";
}

class BlobStores : public testing::Test {
 protected:
  void put(size_t bytes, Priority priority) {
    auto blob = std::make_shared<const Bytes>(bytes);
    transfers_.put(now_, std::make_shared<const BlobChunks>(blob), priority,
                   [this](Result<void> done) { answers_ += done.has_value() ? 1 : 0; });
  }
  // Answers the oldest chunk that is in flight.
  void answer_after(double seconds) {
    now_ += seconds;
    transfers_.stored(now_, wire_.stored[answered_++].ticket, {});
    for (const auto& answer : transfers_.take_answers()) answer();
  }
  size_t in_flight() const { return wire_.stored.size() - answered_; }

  NotedWire wire_;
  BlobTransfers transfers_{wire_, kTimeout, 1 << 30};
  double now_ = 0;
  size_t answered_ = 0;
  int answers_ = 0;
};

TEST_F(BlobStores, BulkPausesForThePayloadOfARound) {
  put(4 * kMaxMessageBytes, Priority::kBulk);
  EXPECT_EQ(in_flight(), 1U) << "before it is known how thin the line is";
  put(100, Priority::kRound);
  ASSERT_EQ(in_flight(), 2U);
  EXPECT_EQ(wire_.stored.back().bytes, 100U);
  answer_after(0.21);  // the bulk's
  EXPECT_EQ(in_flight(), 1U) << "the round's is still being sent";
  answer_after(0.01);
  EXPECT_EQ(answers_, 1);
  EXPECT_EQ(in_flight(), 0U) << "its offer goes first";
  EXPECT_DOUBLE_EQ(transfers_.next_deadline(), now_ + 0.05);
  transfers_.expire(now_ + 0.05);
  EXPECT_EQ(in_flight(), 1U) << "the bulk goes on";
  while (in_flight() > 0) answer_after(0.21);
  EXPECT_EQ(answers_, 2);
}

TEST_F(BlobStores, BulkArrivesHoweverOftenPayloadsAreSent) {
  put(100, Priority::kRound);
  bool arrived = false;
  const auto bulk = std::make_shared<const Bytes>(3 * kMaxMessageBytes);
  transfers_.put(now_, std::make_shared<const BlobChunks>(bulk), Priority::kBulk,
                 [&](const Result<void>& done) { arrived = done.has_value(); });
  ASSERT_EQ(in_flight(), 1U);
  int rounds = 0;
  while (!arrived && rounds < 200) {
    put(100, Priority::kRound);
    answer_after(0.02);  // the next one is in flight already
    ++rounds;
  }
  EXPECT_LT(rounds, 100);
  EXPECT_GT(rounds, 30) << "chunks go one by one, long after each other";
}

TEST_F(BlobStores, BulkOnAThinLineIsOneChunkAtATime) {
  put(40 * kMaxMessageBytes, Priority::kBulk);
  for (int i = 0; i < 20; ++i) {
    answer_after(0.21);
    EXPECT_EQ(in_flight(), 1U);
  }
}

TEST_F(BlobStores, BulkFillsAFastLineAndGivesWayWhenItSlowsDown) {
  put(100 * kMaxMessageBytes, Priority::kBulk);
  for (int i = 0; i < 10; ++i) answer_after(0.001);
  EXPECT_GT(in_flight(), 5U);
  while (in_flight() > 1) answer_after(0.3);
  EXPECT_LT(wire_.stored.size(), 90U);
}

TEST_F(BlobStores, SendEverythingAgainAndFailWhatIsOverdue) {
  put(4 * kMaxMessageBytes, Priority::kBulk);
  put(100, Priority::kRound);
  transfers_.resend(1);
  EXPECT_EQ(wire_.stored.size(), 4U);
  transfers_.expire(kTimeout);
  for (const auto& answer : transfers_.take_answers()) answer();
  EXPECT_EQ(answers_, 0);
  EXPECT_EQ(transfers_.next_deadline(), std::numeric_limits<double>::infinity());
}

}  // namespace
}  // namespace thinwire::transport
