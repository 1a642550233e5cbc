#include "thinwire/transport/communicator.h"

#include <gtest/gtest.h>

#include <functional>
#include <thread>

#include "codecs.h"
#include "frames.h"
#include "thinwire/base/clock.h"

namespace thinwire::transport {
namespace {

constexpr double kPatience = 30;  // seconds; only a hang takes that long

enum class Kind : uint8_t { kLocal, kFrames };

// What every transport promises.
class AllCommunicators : public testing::TestWithParam<Kind> {
 protected:
  std::vector<std::unique_ptr<Communicator>> make_communicators(int members) {
    if (GetParam() == Kind::kLocal) return make_local_communicators(members);
    networks_.push_back(std::make_unique<FrameNetwork>(members));
    std::vector<std::unique_ptr<Communicator>> communicators;
    for (int member = 0; member < members; ++member) {
      communicators.push_back(
          make_hub_communicator(networks_.back()->hub(member), members, member));
    }
    return communicators;
  }

  // Runs body(member, communicator) for every member on its own thread.
  void run_members(int members, const std::function<void(int, Communicator&)>& body) {
    auto communicators = make_communicators(members);
    std::vector<std::thread> threads;
    for (int member = 0; member < members; ++member) {
      threads.emplace_back(
          [&, member] { body(member, *communicators[static_cast<size_t>(member)]); });
    }
    for (std::thread& thread : threads) thread.join();
    communicators.clear();
    networks_.clear();
  }

 private:
  std::vector<std::unique_ptr<FrameNetwork>> networks_;
};

INSTANTIATE_TEST_SUITE_P(Kinds, AllCommunicators, testing::Values(Kind::kLocal, Kind::kFrames),
                         [](const auto& test) {
                           return test.param == Kind::kLocal ? "local" : "frames";
                         });

Key key_of(uint64_t round) { return {.run = 7, .epoch = 0, .round = round, .fragment = 0}; }

TEST_P(AllCommunicators, ExchangeDeliversEveryPayloadInMemberOrder) {
  run_members(4, [](int member, Communicator& communicator) {
    for (uint64_t round = 0; round < 20; ++round) {
      communicator.start_all_gather(key_of(round),
                                    Bytes(static_cast<size_t>(member) + 1, uint8_t(round)));
      const auto list = communicator.wait_all_gather(key_of(round), kPatience);
      ASSERT_TRUE(list.has_value()) << list.error().message;
      ASSERT_EQ(list->size(), 4u);
      for (size_t i = 0; i < 4; ++i) {
        EXPECT_EQ((*list)[i].member, static_cast<int>(i));
        EXPECT_EQ(*(*list)[i].payload, Bytes(i + 1, uint8_t(round)));
      }
    }
    EXPECT_EQ(communicator.traffic().sent, 20u * (static_cast<size_t>(member) + 1));
    EXPECT_EQ(communicator.traffic().received, 20u * (10 - (static_cast<size_t>(member) + 1)));
  });
}

TEST_P(AllCommunicators, ReduceGivesEveryoneTheSumInMemberOrder) {
  constexpr size_t kCount = 101;  // does not divide by 3
  run_members(3, [](int member, Communicator& communicator) {
    std::vector<float> values(kCount);
    for (size_t i = 0; i < kCount; ++i) values[i] = 1e8f * float(member == 0) + 0.1f * float(i);
    communicator.start_all_reduce(key_of(0), values, kF32);
    std::vector<float> sum(kCount);
    ASSERT_TRUE(communicator.wait_all_reduce(key_of(0), sum, kPatience).has_value());
    for (size_t i = 0; i < kCount; ++i) {
      const float own = 0.1f * float(i);
      EXPECT_EQ(sum[i], ((0.0f + (1e8f + own)) + own) + own);
    }
  });
}

TEST_P(AllCommunicators, Bf16ReduceRoundsContributionsAndSumOnce) {
  run_members(2, [](int member, Communicator& communicator) {
    const std::vector<float> values = {1.00390625f + float(member), 3.1415927f, -0.3333333f};
    communicator.start_all_reduce(key_of(0), values, kBf16);
    std::vector<float> sum(3);
    ASSERT_TRUE(communicator.wait_all_reduce(key_of(0), sum, kPatience).has_value());
    EXPECT_EQ(sum[0], round_to_bf16(round_to_bf16(1.00390625f) + round_to_bf16(2.00390625f)));
    EXPECT_EQ(sum[1], round_to_bf16(2 * round_to_bf16(3.1415927f)));
  });
}

TEST_P(AllCommunicators, WhoFollowsGetsWhatTheOthersDoAndSendsNothing) {
  const Contributors from = {0, 2};
  run_members(4, [&](int member, Communicator& communicator) {
    const bool follows = member % 2 == 1;
    for (uint64_t round = 0; round < 10; ++round) {
      communicator.start_all_gather(key_of(2 * round), Bytes{uint8_t(member)}, from);
      const std::vector<float> values(1000, follows ? -7.0f : float(member + 1));
      communicator.start_all_reduce(key_of(2 * round + 1), values, kBf16, from);
      const auto list = communicator.wait_all_gather(key_of(2 * round), kPatience);
      ASSERT_TRUE(list.has_value()) << list.error().message;
      ASSERT_EQ(list->size(), 2u);
      EXPECT_EQ((*list)[1].member, 2);
      EXPECT_EQ(*(*list)[1].payload, Bytes{2});
      std::vector<float> sum(1000);
      ASSERT_TRUE(communicator.wait_all_reduce(key_of(2 * round + 1), sum, kPatience).has_value());
      EXPECT_EQ(sum, std::vector<float>(1000, 4.0f));
    }
    // An owner sends half of its values to the other owner, and the sum of its half to all.
    EXPECT_EQ(communicator.traffic().sent, follows ? 0u : 10u * (1 + 1000 + 3 * 1000));
    EXPECT_EQ(communicator.traffic().received, 10u * (follows ? 2 + 2000 : 1 + 2000));
  });
}

TEST_P(AllCommunicators, WhoFollowsMayLeaveAndTheOthersGoOn) {
  run_members(3, [&](int member, Communicator& communicator) {
    std::vector<float> values(100, 1.0f);
    communicator.start_all_reduce(key_of(0), values, kF32, {0, 1});
    if (member == 2) return communicator.cancel(key_of(0));
    ASSERT_TRUE(communicator.wait_all_reduce(key_of(0), values, kPatience).has_value());
    EXPECT_EQ(values, std::vector<float>(100, 2.0f));
  });
}

TEST_P(AllCommunicators, ReduceMayWriteOverItsOwnInput) {
  run_members(4, [](int, Communicator& communicator) {
    for (uint64_t round = 0; round < 50; ++round) {
      std::vector<float> values(64, 1.0f);
      communicator.start_all_reduce(key_of(round), values, kF32);
      ASSERT_TRUE(communicator.wait_all_reduce(key_of(round), values, kPatience).has_value());
      EXPECT_EQ(values, std::vector<float>(64, 4.0f));
    }
  });
}

TEST_P(AllCommunicators, ReduceTrafficIsThatOfARing) {
  run_members(4, [](int, Communicator& communicator) {
    std::vector<float> values(1000);
    communicator.start_all_reduce(key_of(0), values, kBf16);
    ASSERT_TRUE(communicator.wait_all_reduce(key_of(0), values, kPatience).has_value());
    EXPECT_EQ(communicator.traffic().sent, 2u * 3 * 1000 * 2 / 4);
    EXPECT_EQ(communicator.traffic().received, communicator.traffic().sent);
  });
}

std::vector<float> numbers(size_t count, int member) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) {
    values[i] = std::sin(float(i) * 0.37f + float(member)) * float(i % 1000);
  }
  return values;
}

TEST_P(AllCommunicators, BlocksAreCodedAsInOneBuffer) {
  constexpr size_t kCount = 70001;  // several pieces, a block that is not full
  std::vector<float> expected(kCount);
  for (int member = 0; member < 3; ++member) {
    const std::vector<float> part = as_received(kPercents, numbers(kCount, member));
    for (size_t i = 0; i < kCount; ++i) expected[i] += part[i];
  }
  expected = as_received(kPercents, expected);
  run_members(3, [&](int member, Communicator& communicator) {
    const std::vector<float> values = numbers(kCount, member);
    communicator.start_all_reduce(key_of(0), values, kPercents);
    std::vector<float> sum(kCount);
    ASSERT_TRUE(communicator.wait_all_reduce(key_of(0), sum, kPatience).has_value());
    EXPECT_EQ(sum, expected);
  });
}

TEST_P(AllCommunicators, TrafficGoesByTheChunksOfTheFormat) {
  constexpr size_t kCount = 1000;  // 4 blocks for 3 owners: 256, 256 and 488 values
  constexpr SumFormats kFormats{WireType::kFp8, WireType::kFp8};
  uint64_t all = 0;
  for (const auto& [member, chunk] : {std::pair{0, 256u}, {1, 256u}, {2, 488u}}) {
    const WireChunk own = wire_chunk(WireType::kFp8, kCount, 3, member);
    EXPECT_EQ(own.end - own.begin, chunk);
    const uint64_t bytes = wire_bytes(WireType::kFp8, chunk);
    const AllReduceBytes moved = all_reduce_bytes(kFormats, kCount, 3, member);
    EXPECT_EQ(moved.sent, 1008 - bytes + 2 * bytes);
    EXPECT_EQ(moved.received, moved.sent);
    all += moved.sent;
  }
  EXPECT_EQ(all, 2 * 2 * 1008u);
  run_members(3, [&](int member, Communicator& communicator) {
    std::vector<float> values(kCount, 1.0f);
    communicator.start_all_reduce(key_of(0), values, kPercents);
    ASSERT_TRUE(communicator.wait_all_reduce(key_of(0), values, kPatience).has_value());
    EXPECT_EQ(communicator.traffic().sent, all_reduce_bytes(kFormats, kCount, 3, member).sent);
    EXPECT_EQ(communicator.traffic().received, communicator.traffic().sent);
  });
}

TEST_P(AllCommunicators, ASumMayHaveAFormatOfItsOwn) {
  constexpr size_t kCount = 1000;
  WireCodec codec = kPercents;
  codec.sum_codec = &kF32;
  run_members(3, [&](int member, Communicator& communicator) {
    const std::vector<float> values = numbers(kCount, member);
    std::vector<float> expected(kCount);
    for (int from = 0; from < 3; ++from) {
      const std::vector<float> part = as_received(kPercents, numbers(kCount, from));
      for (size_t i = 0; i < kCount; ++i) expected[i] += part[i];
    }
    std::vector<float> sum(kCount);
    communicator.start_all_reduce(key_of(0), values, codec);
    ASSERT_TRUE(communicator.wait_all_reduce(key_of(0), sum, kPatience).has_value());
    EXPECT_EQ(sum, expected);
    const AllReduceBytes moved = all_reduce_bytes(codec.formats(), kCount, 3, member);
    EXPECT_EQ(communicator.traffic().sent, moved.sent);
    EXPECT_EQ(communicator.traffic().received, moved.received);
    EXPECT_NE(moved.sent, moved.received);
  });
}

TEST_P(AllCommunicators, SumsAreFormedBehindComputeWithoutAnybodyWaiting) {
  constexpr size_t kCount = 100000;
  auto communicators = make_communicators(2);
  const std::vector<float> ours = numbers(kCount, 0);
  const std::vector<float> theirs = numbers(kCount, 1);
  const size_t before = values_encoded;
  communicators[0]->start_all_reduce(key_of(0), ours, kBf16);
  communicators[1]->start_all_reduce(key_of(0), theirs, kBf16);
  const Stopwatch patience;
  while (values_encoded < before + 3 * kCount && patience.seconds() < kPatience) {
    std::this_thread::yield();
  }
  EXPECT_EQ(values_encoded, before + 3 * kCount);
}

TEST_P(AllCommunicators, SeveralSumsTravelAtOnce) {
  run_members(3, [](int member, Communicator& communicator) {
    std::vector<std::vector<float>> values;
    for (uint64_t round = 0; round < 8; ++round) {
      values.emplace_back(40000, float(round) + float(member));
      communicator.start_all_reduce(key_of(round), values.back(), kBf16);
    }
    std::vector<float> sum(40000);
    for (const uint64_t round : {5, 1, 7, 0, 2, 3, 6, 4}) {
      ASSERT_TRUE(communicator.wait_all_reduce(key_of(round), sum, kPatience).has_value());
      EXPECT_EQ(sum, std::vector<float>(40000, 3 * float(round) + 3));
    }
  });
}

TEST_P(AllCommunicators, ContributionThatCannotBeCodedFailsForEveryoneByName) {
  run_members(2, [](int member, Communicator& communicator) {
    std::vector<float> values(1000, 1.0f);
    if (member == 1) values[700] = std::numeric_limits<float>::infinity();
    communicator.start_all_reduce(key_of(0), values, kPercents);
    const auto done = communicator.wait_all_reduce(key_of(0), values, kPatience);
    ASSERT_FALSE(done.has_value());
    EXPECT_EQ(done.error().kind, FailureKind::kCorruptPayload);
    EXPECT_EQ(done.error().message, "the contribution of member 1: a scale");
  });
}

TEST(LocalCommunicator, ContributionsOfDifferentLengthsAreAnError) {
  auto communicators = make_local_communicators(2);
  const std::vector<float> values(10);
  communicators[0]->start_all_reduce(key_of(0), values, kF32);
  EXPECT_THROW(communicators[1]->start_all_reduce(key_of(0), std::span(values).first(9), kF32),
               Error);
  EXPECT_THROW(communicators[1]->start_all_reduce(key_of(0), values, kBf16), Error);
}

// The sanitizers watch the freed memory.
TEST_P(AllCommunicators, MemoryMayGoAfterCancelAndAfterLeaving) {
  for (const bool leaves : {false, true}) {
    for (uint64_t round = 0; round < 50; ++round) {
      run_members(3, [&](int member, Communicator& communicator) {
        auto values = std::make_unique<std::vector<float>>(100000, 1.0f);
        communicator.start_all_reduce(key_of(round), *values, kBf16);
        if (member == 1) {
          leaves ? communicator.leave() : communicator.cancel(key_of(round));
          return;
        }
        std::vector<float> sum(values->size());
        const auto done = communicator.wait_all_reduce(key_of(round), sum, kPatience);
        if (done) {
          EXPECT_EQ(sum, std::vector<float>(sum.size(), 3.0f));
        } else {
          EXPECT_EQ(done.error().kind, FailureKind::kLostPeer);
        }
      });
    }
  }
}

TEST_P(AllCommunicators, GroupsNumberTheirMembersAnewAndKeepTheirKeysApart) {
  run_members(5, [](int member, Communicator& communicator) {
    const bool odd = member % 2 == 1;
    const std::vector<int> members = odd ? std::vector{1, 3} : std::vector{0, 2, 4};
    const auto group = communicator.split(members);
    EXPECT_EQ(group->rank(), member / 2);
    EXPECT_EQ(group->size(), odd ? 2 : 3);

    std::vector<float> sum(1, float(member));
    group->start_all_reduce(key_of(0), sum, kF32);
    ASSERT_TRUE(group->wait_all_reduce(key_of(0), sum, kPatience).has_value());
    EXPECT_EQ(sum[0], odd ? 4.0f : 6.0f);
    group->start_all_gather(key_of(0), Bytes{uint8_t(member)});
    communicator.start_all_gather(key_of(0), Bytes{uint8_t(10 + member), 0});
    const auto inside = group->wait_all_gather(key_of(0), kPatience);
    ASSERT_TRUE(inside.has_value());
    ASSERT_EQ(inside->size(), members.size());
    for (size_t i = 0; i < members.size(); ++i) {
      EXPECT_EQ((*inside)[i].member, int(i));
      EXPECT_EQ((*inside)[i].payload->front(), members[i]);
    }
    EXPECT_EQ(communicator.wait_all_gather(key_of(0), kPatience)->size(), 5u);

    const auto own = group->traffic();
    EXPECT_EQ(own.received, own.sent - 1 + members.size() - 1) << "sums balance, payloads do not";
    EXPECT_EQ(communicator.traffic().sent, own.sent + 2);
    EXPECT_EQ(communicator.traffic().received, own.received + 8);
  });
}

TEST_P(AllCommunicators, GroupsAreMadeOfGroups) {
  run_members(4, [](int member, Communicator& communicator) {
    if (member == 0) return;
    const auto later = communicator.split(std::vector{1, 2, 3});
    if (member == 2) return;
    const auto ends = later->split(std::vector{0, 2});
    std::vector<float> sum(3, float(member));
    ends->start_all_reduce(key_of(0), sum, kF32);
    ASSERT_TRUE(ends->wait_all_reduce(key_of(0), sum, kPatience).has_value());
    EXPECT_EQ(sum, std::vector<float>(3, 4.0f));
  });
}

TEST_P(AllCommunicators, GroupOfOneSumsAloneAndSendsNothing) {
  auto communicators = make_communicators(2);
  const auto alone = communicators[1]->split(std::vector{1});
  std::vector<float> sum(300, 0.123f);
  alone->start_all_reduce(key_of(0), sum, kBf16);
  ASSERT_TRUE(alone->wait_all_reduce(key_of(0), sum, kPatience).has_value());
  EXPECT_EQ(sum, std::vector<float>(300, round_to_bf16(0.123f)));
  EXPECT_EQ(communicators[1]->traffic().sent, 0u);
}

TEST_P(AllCommunicators, GroupsWithoutTheirMakerOrOutOfOrderAreErrors) {
  auto communicators = make_communicators(3);
  EXPECT_THROW(communicators[0]->split(std::vector{1, 2}), Error);
  EXPECT_THROW(communicators[0]->split(std::vector{2, 0}), Error);
  EXPECT_THROW(communicators[0]->split(std::vector{0, 3}), Error);
  EXPECT_THROW(communicators[0]->split(std::vector{0, 0}), Error);
  EXPECT_THROW(communicators[0]->split({}), Error);
}

TEST_P(AllCommunicators, AbortReachesGroups) {
  run_members(3, [](int member, Communicator& communicator) {
    if (member == 2) return communicator.abort("out of memory");
    const auto group = communicator.split(std::vector{0, 1});
    std::vector<float> sum(3);
    if (member == 0) group->start_all_reduce(key_of(0), sum, kF32);
    if (member == 0) {
      const auto done = group->wait_all_reduce(key_of(0), sum, kPatience);
      ASSERT_FALSE(done.has_value());
      EXPECT_EQ(done.error().message, "out of memory");
    }
  });
}

TEST_P(AllCommunicators, MemberThatLeavesMakesTheRoundSmaller) {
  run_members(3, [](int member, Communicator& communicator) {
    if (member == 1) return communicator.leave();
    communicator.start_all_gather(key_of(0), Bytes{uint8_t(member)});
    const auto list = communicator.wait_all_gather(key_of(0), kPatience);
    ASSERT_TRUE(list.has_value());
    ASSERT_EQ(list->size(), 2u);
    EXPECT_EQ((*list)[0].member, 0);
    EXPECT_EQ((*list)[1].member, 2);
  });
}

TEST_P(AllCommunicators, ReduceFailsWhenAMemberLeaves) {
  run_members(3, [](int member, Communicator& communicator) {
    std::vector<float> values(10, 1.0f);
    if (member == 1) return communicator.leave();
    communicator.start_all_reduce(key_of(0), values, kF32);
    std::vector<float> sum(10, -1.0f);
    const auto done = communicator.wait_all_reduce(key_of(0), sum, kPatience);
    ASSERT_FALSE(done.has_value());
    EXPECT_EQ(done.error().kind, FailureKind::kLostPeer);
    EXPECT_EQ(sum, std::vector<float>(10, -1.0f)) << "a failed sum must not write";
  });
}

TEST_P(AllCommunicators, WhoHasLeftIsToldSoAlsoWhenTheOthersHaveFinished) {
  auto communicators = make_communicators(2);
  communicators[1]->leave();
  std::vector<float> values(10, 1.0f);
  for (const auto& communicator : communicators) {
    communicator->start_all_reduce(key_of(0), values, kF32);
    communicator->start_all_gather(key_of(1), Bytes{1});
  }
  std::vector<float> sum(10);
  EXPECT_FALSE(communicators[0]->wait_all_reduce(key_of(0), sum, kPatience).has_value());
  EXPECT_TRUE(communicators[0]->wait_all_gather(key_of(1), kPatience).has_value());
  const auto left = communicators[1]->wait_all_reduce(key_of(0), sum, kPatience);
  ASSERT_FALSE(left.has_value());
  EXPECT_EQ(left.error().kind, FailureKind::kLostPeer);
  const auto list = communicators[1]->wait_all_gather(key_of(1), kPatience);
  if (!list) {  // with a hub of its own it has closed its round alone
    EXPECT_EQ(list.error().kind, FailureKind::kLostPeer);
  }
}

TEST_P(AllCommunicators, SilentMemberIsADeadlineNotAHang) {
  auto communicators = make_communicators(2);
  communicators[0]->start_all_gather(key_of(0), Bytes{1});
  const auto list = communicators[0]->wait_all_gather(key_of(0), 0.01);
  ASSERT_FALSE(list.has_value());
  EXPECT_EQ(list.error().kind, FailureKind::kDeadline);
}

TEST_P(AllCommunicators, AbortReachesEveryoneWithItsReason) {
  run_members(3, [](int member, Communicator& communicator) {
    if (member == 2) return communicator.abort("loss became NaN");
    communicator.start_all_gather(key_of(0), Bytes{1});
    const auto list = communicator.wait_all_gather(key_of(0), kPatience);
    ASSERT_FALSE(list.has_value());
    EXPECT_EQ(list.error().kind, FailureKind::kAborted);
    EXPECT_EQ(list.error().message, "loss became NaN");
  });
}

}  // namespace
}  // namespace thinwire::transport
