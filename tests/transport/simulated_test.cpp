// Virtual time, computed by hand.
#include <gtest/gtest.h>

#include <functional>
#include <thread>

#include "codecs.h"
#include "thinwire/transport/communicator.h"
#include "thinwire/transport/simulated_network.h"

namespace thinwire::transport {
namespace {

constexpr double kPatience = 30;
constexpr double kUp = 800;     // bit/s: 100 bytes a second
constexpr double kDown = 8000;  // 1000 bytes a second

links::Member member_with(double step_s, double delay_s = 0) {
  return {{kUp, kDown, delay_s, 0}, step_s};
}

Key key_of(uint64_t round) { return {.run = 7, .epoch = 0, .round = round, .fragment = 0}; }

// Runs body for every member on its own thread; returns the clocks at the end.
std::vector<double> clocks_after(
    const std::vector<links::Member>& members,
    const std::function<void(int, Communicator&, SimulatedNetwork&)>& body) {
  const auto count = static_cast<int>(members.size());
  const auto network = std::make_shared<SimulatedNetwork>(members);
  const auto communicators = make_local_communicators(count, network);
  std::vector<std::thread> threads;
  for (int member = 0; member < count; ++member) {
    threads.emplace_back([&, member] { body(member, *communicators[size_t(member)], *network); });
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<double> clocks;
  for (int member = 0; member < count; ++member) clocks.push_back(network->clock(member));
  return clocks;
}

void reduce(Communicator& communicator, uint64_t round, size_t values) {
  std::vector<float> sum(values, 1.0f);
  communicator.start_all_reduce(key_of(round), sum, kF32);
  ASSERT_TRUE(communicator.wait_all_reduce(key_of(round), sum, kPatience).has_value());
  ASSERT_EQ(sum[0], float(communicator.size()));
}

TEST(SimulatedCommunicator, ExchangeTakesTheSlowerDirectionAndADelay) {
  // Up 200 bytes at 100 a second; down 2 x 200 at 1000 a second.
  const std::vector<links::Member> members(3, member_with(0, 0.5));
  const auto clocks = clocks_after(members, [](int, Communicator& communicator, SimulatedNetwork&) {
    communicator.start_all_gather(key_of(0), Bytes(200));
    ASSERT_TRUE(communicator.wait_all_gather(key_of(0), kPatience).has_value());
  });
  for (const double clock : clocks) EXPECT_DOUBLE_EQ(clock, 2 + 0.5);
}

TEST(SimulatedCommunicator, AllReduceTakesTwoRoundTrips) {
  // 100 values of 4 bytes, half to the other owner and half back: 2 s and the delay each time.
  const std::vector<links::Member> members(2, member_with(0, 0.25));
  const auto clocks = clocks_after(members, [](int, Communicator& communicator, SimulatedNetwork&) {
    reduce(communicator, 0, 100);
  });
  for (const double clock : clocks) EXPECT_DOUBLE_EQ(clock, 2 * (2 + 0.25));
}

TEST(SimulatedCommunicator, LossAndASlowMemberHoldOthersUp) {
  std::vector<links::Member> members(2, member_with(1));
  members[1].step_s = 3;
  members[1].link.loss = 0.5;
  const auto clocks =
      clocks_after(members, [](int member, Communicator& communicator, SimulatedNetwork& network) {
        network.compute(member);
        reduce(communicator, 0, 100);
      });
  // Member 1 begins at 3 and needs 4 s for its 200 bytes, and as long for its sum. Member 0 has its
  // own sum then at 7, and it takes 2 s.
  EXPECT_DOUBLE_EQ(clocks[0], 3 + 4 + 4);
  EXPECT_DOUBLE_EQ(clocks[1], 3 + 4 + 2);
}

TEST(SimulatedCommunicator, WhatTravelsBehindComputeCostsNothing) {
  const std::vector<links::Member> members(2, member_with(3));
  const auto clocks =
      clocks_after(members, [](int member, Communicator& communicator, SimulatedNetwork& network) {
        const std::vector<float> values(100);
        std::vector<float> sum(100);
        for (uint64_t step = 0; step < 4; ++step) {
          network.compute(member);
          if (step > 1) {
            ASSERT_TRUE(communicator.wait_all_reduce(key_of(step - 2), sum, kPatience).has_value());
          }
          communicator.start_all_reduce(key_of(step), values, kF32);
        }
        communicator.cancel(key_of(2));
        communicator.cancel(key_of(3));
      });
  // Sums of 4 s start every 3 s: the third starts at 9, when the first, done at 7, is there; the
  // fourth waits for the second, done at 11, and starts at 12.
  for (const double clock : clocks) EXPECT_DOUBLE_EQ(clock, 12);
}

TEST(SimulatedCommunicator, OperationsQueueOnALink) {
  const std::vector<links::Member> members(2, member_with(0));
  const auto clocks = clocks_after(members, [](int, Communicator& communicator, SimulatedNetwork&) {
    std::vector<std::vector<float>> sums(3, std::vector<float>(100));
    for (uint64_t round = 0; round < 3; ++round) {
      communicator.start_all_reduce(key_of(round), sums[round], kF32);
    }
    for (const uint64_t round : {2, 0, 1}) {
      ASSERT_TRUE(communicator.wait_all_reduce(key_of(round), sums[round], kPatience).has_value());
    }
  });
  for (const double clock : clocks) EXPECT_DOUBLE_EQ(clock, 3 * 4);
}

// Two groups share member 1; real time is shuffled by the threads, virtual time is not.
TEST(SimulatedCommunicator, ClocksAreTheSameInEveryRun) {
  std::vector<links::Member> members;
  for (const double step_s : {0.1, 0.25, 0.4}) members.push_back(member_with(step_s, step_s / 7));
  members[2].link.up_bit_s = 300;
  const auto body = [](int member, Communicator& communicator, SimulatedNetwork& network) {
    const auto left = member < 2 ? communicator.split(std::vector{0, 1}) : nullptr;
    const auto right = member > 0 ? communicator.split(std::vector{1, 2}) : nullptr;
    for (uint64_t round = 0; round < 20; ++round) {
      network.compute(member);
      std::vector<float> one(90);
      std::vector<float> two(50);
      if (left) left->start_all_reduce(key_of(round), one, kBf16);
      if (right) right->start_all_reduce(key_of(round), two, kF32);
      if (right) {
        ASSERT_TRUE(right->wait_all_reduce(key_of(round), two, kPatience).has_value());
      }
      if (left) {
        ASSERT_TRUE(left->wait_all_reduce(key_of(round), one, kPatience).has_value());
      }
      communicator.start_all_gather(key_of(round), Bytes(size_t(member) * 10 + 5));
      ASSERT_TRUE(communicator.wait_all_gather(key_of(round), kPatience).has_value());
    }
  };
  const auto first = clocks_after(members, body);
  EXPECT_GT(first[0], 20 * 0.4);
  for (int again = 0; again < 10; ++again) EXPECT_EQ(clocks_after(members, body), first);
}

TEST(SimulatedCommunicator, MembersThatLeaveHoldNobodyUp) {
  const std::vector<links::Member> members(3, member_with(1));
  const auto clocks =
      clocks_after(members, [](int member, Communicator& communicator, SimulatedNetwork& network) {
        if (member == 2) return communicator.leave();
        network.compute(member);
        communicator.start_all_gather(key_of(0), Bytes(100));
        ASSERT_TRUE(communicator.wait_all_gather(key_of(0), kPatience).has_value());
      });
  EXPECT_DOUBLE_EQ(clocks[0], 1 + 1);
  EXPECT_DOUBLE_EQ(clocks[1], 1 + 1);
}

}  // namespace
}  // namespace thinwire::transport
