// Only the state machine: no threads, no waiting, frames as it sends them.
#include "thinwire/transport/rendezvous.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codecs.h"

namespace thinwire::transport {
namespace {

using testing::ElementsAre;

constexpr Key kKey{.run = 1, .epoch = 0, .round = 2, .fragment = 0};

// Members whose ids are neither small nor consecutive, each with its own Rendezvous; frames arrive
// when asked for.
class Places : public testing::Test {
 protected:
  Places() {
    for (const int member : kMembers) {
      places_.emplace(member, std::make_unique<Rendezvous>(
                                  kMembers, std::vector<int>{member},
                                  [this](const FrameHead& head, std::span<const uint8_t> body) {
                                    sent_.push_back({head, {body.begin(), body.end()}});
                                  }));
      everybody_.group = at(member).group(kMembers);
    }
  }

  Rendezvous& at(int member) { return *places_.at(member); }

  // Delivers all frames sent, and those sent in response.
  void deliver() {
    for (size_t i = 0; i < sent_.size(); ++i) {
      const Frame frame = sent_[i];
      ASSERT_TRUE(at(frame.head.to).deliver(frame));
    }
    sent_.clear();
  }

  void work(int member) {
    CodedSum memory;
    while (auto work = at(member).take_work()) {
      at(member).finish_work(*work, work->task.run(memory));
    }
  }

  const std::vector<int> kMembers = {7, 40, 1000};
  std::map<int, std::unique_ptr<Rendezvous>> places_;
  std::vector<Frame> sent_;
  Operation everybody_{0, kKey};
};

std::vector<int> members_of(const std::vector<Delivery>& list) {
  std::vector<int> members;
  for (const Delivery& delivery : list) members.push_back(delivery.member);
  return members;
}

TEST_F(Places, AGatherClosesWhenAllPresentHaveOffered) {
  for (const int member : {1000, 7}) at(member).offer(everybody_, member, Bytes{uint8_t(member)});
  deliver();
  EXPECT_FALSE(at(7).closed(everybody_));
  at(40).leave(40);
  deliver();
  for (const int member : {7, 1000}) {
    ASSERT_TRUE(at(member).closed(everybody_));
    EXPECT_THAT(members_of(at(member).committed(everybody_)), ElementsAre(7, 1000));
  }
}

TEST_F(Places, WhatWasOfferedBeforeLeavingCounts) {
  for (const int member : kMembers) at(member).offer(everybody_, member, Bytes{1});
  at(40).leave(40);
  deliver();
  EXPECT_THAT(members_of(at(7).committed(everybody_)), ElementsAre(7, 40, 1000));
}

TEST_F(Places, OperationsAreForgottenOnceAllHereHaveFinished) {
  Rendezvous all(kMembers, kMembers, {});
  const Operation operation{all.group(kMembers), kKey};
  for (const int member : kMembers) all.offer(operation, member, Bytes{1});
  EXPECT_FALSE(all.finish_gather(operation, 7));
  EXPECT_FALSE(all.finish_gather(operation, 40));
  all.leave(1000);
  EXPECT_TRUE(all.finish_gather(operation, 40)) << "who left needs it no more";
  EXPECT_FALSE(all.offered(operation));
}

TEST_F(Places, ASumFormsFromOwnersChunks) {
  const std::vector<float> values = {1, 2, 3, 4, 5};
  for (const int member : kMembers) at(member).contribute(everybody_, member, values, kF32);
  for (int pass = 0; pass < 3; ++pass) {
    for (const int member : kMembers) work(member);
    deliver();
  }
  for (const int member : kMembers) {
    ASSERT_TRUE(at(member).sum(everybody_)->done()) << member;
    EXPECT_THAT(at(member).sum(everybody_)->sum(), ElementsAre(3, 6, 9, 12, 15));
  }
}

TEST_F(Places, ASumOutlivesAMemberThatHasDoneItsPart) {
  const std::vector<float> values = {1, 2, 3, 4, 5};
  for (const int member : kMembers) at(member).contribute(everybody_, member, values, kF32);
  for (const int member : kMembers) work(member);
  deliver();
  work(40);
  at(40).leave(40);
  deliver();
  EXPECT_FALSE(at(7).sum(everybody_)->failure()) << "its contributions and its sum are there";
  at(1000).withdraw(everybody_, 1000);
  deliver();
  ASSERT_TRUE(at(7).sum(everybody_)->failure());
  EXPECT_EQ(at(7).sum(everybody_)->failure()->kind, FailureKind::kLostPeer);
}

TEST_F(Places, AContributionOfTheWrongLengthIsRefusedByItsOwner) {
  const std::vector<float> values(6, 1.0f);
  at(7).contribute(everybody_, 7, values, kF32);
  for (const auto& [from, bytes] : {std::pair{40, 8}, {1000, 4}}) {
    const FrameHead head{FrameKind::kContribution, from, 7, everybody_};
    ASSERT_TRUE(at(7).deliver({head, Bytes(size_t(bytes))}));
  }
  work(7);
  ASSERT_TRUE(at(7).sum(everybody_)->failure());
  EXPECT_EQ(at(7).sum(everybody_)->failure()->message,
            "the contribution of member 1000: 4 bytes where 8 are expected");
  EXPECT_EQ(sent_.back().head.kind, FrameKind::kRefusal);
}

TEST_F(Places, TheFirstReasonToEndTheRunCounts) {
  at(40).abort("out of memory");
  at(7).abort("interrupted");
  deliver();
  EXPECT_EQ(at(1000).aborted()->message, "out of memory");
  EXPECT_EQ(at(7).aborted()->message, "interrupted");
}

}  // namespace
}  // namespace thinwire::transport
