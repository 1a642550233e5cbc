#include "thinwire/transport/local.h"

#include <gtest/gtest.h>

#include <functional>
#include <thread>

#include "thinwire/base/bf16.h"

namespace thinwire::transport {
namespace {

constexpr double kPatience = 30;  // seconds; only a hang takes that long

// Runs body(member, peers) for every member on a thread of its own.
void run_members(int members, const std::function<void(int, Peers&)>& body) {
  auto peers = make_local_peers(members);
  std::vector<std::thread> threads;
  for (int member = 0; member < members; ++member) {
    threads.emplace_back([&, member] { body(member, *peers[static_cast<size_t>(member)]); });
  }
  for (std::thread& thread : threads) thread.join();
}

Key key_of(uint64_t round) { return {.run = 7, .epoch = 0, .round = round, .fragment = 0}; }

TEST(LocalPeers, ExchangeDeliversEveryPayloadInMemberOrder) {
  run_members(4, [](int member, Peers& peers) {
    for (uint64_t round = 0; round < 20; ++round) {
      peers.start_exchange(key_of(round), Bytes(static_cast<size_t>(member) + 1, uint8_t(round)));
      const auto list = peers.wait_exchange(key_of(round), kPatience);
      ASSERT_TRUE(list.has_value()) << list.error().message;
      ASSERT_EQ(list->size(), 4u);
      for (size_t i = 0; i < 4; ++i) {
        EXPECT_EQ((*list)[i].member, static_cast<int>(i));
        EXPECT_EQ(*(*list)[i].payload, Bytes(i + 1, uint8_t(round)));
      }
    }
    EXPECT_EQ(peers.traffic().sent, 20u * (static_cast<size_t>(member) + 1));
    EXPECT_EQ(peers.traffic().received, 20u * (10 - (static_cast<size_t>(member) + 1)));
  });
}

TEST(LocalPeers, ReduceGivesEveryoneTheSumInMemberOrder) {
  constexpr size_t kCount = 101;  // does not divide by 3
  run_members(3, [](int member, Peers& peers) {
    std::vector<float> values(kCount);
    for (size_t i = 0; i < kCount; ++i) values[i] = 1e8f * float(member == 0) + 0.1f * float(i);
    peers.start_reduce(key_of(0), values, WireType::kF32);
    std::vector<float> sum(kCount);
    ASSERT_TRUE(peers.wait_reduce(key_of(0), sum, kPatience).has_value());
    for (size_t i = 0; i < kCount; ++i) {
      const float own = 0.1f * float(i);
      EXPECT_EQ(sum[i], ((0.0f + (1e8f + own)) + own) + own);
    }
  });
}

TEST(LocalPeers, Bf16ReduceRoundsContributionsAndSumOnce) {
  run_members(2, [](int member, Peers& peers) {
    const std::vector<float> values = {1.00390625f + float(member), 3.1415927f, -0.3333333f};
    peers.start_reduce(key_of(0), values, WireType::kBf16);
    std::vector<float> sum(3);
    ASSERT_TRUE(peers.wait_reduce(key_of(0), sum, kPatience).has_value());
    EXPECT_EQ(sum[0], round_to_bf16(round_to_bf16(1.00390625f) + round_to_bf16(2.00390625f)));
    EXPECT_EQ(sum[1], round_to_bf16(2 * round_to_bf16(3.1415927f)));
  });
}

TEST(LocalPeers, ReduceMayWriteOverItsOwnInput) {
  run_members(4, [](int, Peers& peers) {
    for (uint64_t round = 0; round < 50; ++round) {
      std::vector<float> values(64, 1.0f);
      peers.start_reduce(key_of(round), values, WireType::kF32);
      ASSERT_TRUE(peers.wait_reduce(key_of(round), values, kPatience).has_value());
      EXPECT_EQ(values, std::vector<float>(64, 4.0f));
    }
  });
}

TEST(LocalPeers, ReduceTrafficIsThatOfARing) {
  run_members(4, [](int, Peers& peers) {
    std::vector<float> values(1000);
    peers.start_reduce(key_of(0), values, WireType::kBf16);
    ASSERT_TRUE(peers.wait_reduce(key_of(0), values, kPatience).has_value());
    EXPECT_EQ(peers.traffic().sent, 2u * 3 * 1000 * 2 / 4);
    EXPECT_EQ(peers.traffic().received, peers.traffic().sent);
  });
}

TEST(LocalPeers, MemberThatLeavesMakesTheRoundSmaller) {
  run_members(3, [](int member, Peers& peers) {
    if (member == 1) return peers.leave();
    peers.start_exchange(key_of(0), Bytes{uint8_t(member)});
    const auto list = peers.wait_exchange(key_of(0), kPatience);
    ASSERT_TRUE(list.has_value());
    ASSERT_EQ(list->size(), 2u);
    EXPECT_EQ((*list)[0].member, 0);
    EXPECT_EQ((*list)[1].member, 2);
  });
}

TEST(LocalPeers, ReduceFailsWhenAMemberLeaves) {
  run_members(3, [](int member, Peers& peers) {
    std::vector<float> values(10, 1.0f);
    if (member == 1) return peers.leave();
    peers.start_reduce(key_of(0), values, WireType::kF32);
    std::vector<float> sum(10, -1.0f);
    const auto done = peers.wait_reduce(key_of(0), sum, kPatience);
    ASSERT_FALSE(done.has_value());
    EXPECT_EQ(done.error().kind, FailureKind::kLostPeer);
    EXPECT_EQ(sum, std::vector<float>(10, -1.0f)) << "a failed sum must not write";
  });
}

TEST(LocalPeers, SilentMemberIsADeadlineNotAHang) {
  auto peers = make_local_peers(2);
  peers[0]->start_exchange(key_of(0), Bytes{1});
  const auto list = peers[0]->wait_exchange(key_of(0), 0.01);
  ASSERT_FALSE(list.has_value());
  EXPECT_EQ(list.error().kind, FailureKind::kDeadline);
}

TEST(LocalPeers, AbortReachesEveryoneWithItsReason) {
  run_members(3, [](int member, Peers& peers) {
    if (member == 2) return peers.abort("loss became NaN");
    peers.start_exchange(key_of(0), Bytes{1});
    const auto list = peers.wait_exchange(key_of(0), kPatience);
    ASSERT_FALSE(list.has_value());
    EXPECT_EQ(list.error().kind, FailureKind::kAborted);
    EXPECT_EQ(list.error().message, "loss became NaN");
  });
}

}  // namespace
}  // namespace thinwire::transport
