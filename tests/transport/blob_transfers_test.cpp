#include "thinwire/transport/courier/blob_transfers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
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
  void store(uint64_t, const Chunk&) override {}
  void fetch(uint64_t ticket, const Sha256& name, const std::string& holder) override {
    asked.push_back({ticket, name, holder});
  }
  std::vector<std::string> holders() const {
    std::vector<std::string> names;
    for (const Asked& one : asked) names.push_back(one.holder);
    return names;
  }
  std::vector<Asked> asked;
};

class BlobFetches : public testing::Test {
 protected:
  void get(std::vector<std::string> holders) {
    transfers_.get(0, blob_id(blob_), std::move(holders), Priority::kRound,
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

}  // namespace
}  // namespace thinwire::transport
