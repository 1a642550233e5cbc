#include "thinwire/transport/frame_hub.h"

#include <gtest/gtest.h>

#include "codecs.h"

namespace thinwire::transport {
namespace {

// If all began with the same receiver, its link would be full while the others' are idle.
TEST(FrameHub, MembersBeginWithDifferentReceivers) {
  for (int self = 0; self < 3; ++self) {
    const std::vector<int> others = {(self + 1) % 3, (self + 2) % 3};
    std::vector<int> receivers;
    FrameHub hub(self, 3, [&](int to, const Bytes&) { receivers.push_back(to); });
    const uint64_t all = hub.group({0, 1, 2});
    hub.offer(all, self, {.run = 1, .epoch = 0, .round = 0, .fragment = 0}, Bytes(4));
    EXPECT_EQ(receivers, others);
    receivers.clear();
    const std::vector<float> values(100);
    const Key key{.run = 1, .epoch = 0, .round = 1, .fragment = 0};
    hub.contribute(all, self, key, values, kF32);
    while (hub.work()) continue;
    EXPECT_EQ(receivers, others);
  }
}

constexpr Key kFirst{.run = 1, .epoch = 0, .round = 0, .fragment = 0};
constexpr double kPatience = 60;  // seconds; only what hangs takes that long

Frame payload_of(int member, const Operation& operation) {
  return {{FrameKind::kPayload, member, 0, operation}, Bytes(4)};
}

// Member 1 has answered and member 2 has not, until it is told that it is waited for.
TEST(FrameHub, TellsForWhomItWaits) {
  FrameHub hub(0, 3, [](int, const Bytes&) {});
  const uint64_t all = hub.group({0, 1, 2});
  std::vector<int> told;
  hub.tell_waits(
      [&](const std::vector<int>& others, double seconds) {
        EXPECT_GE(seconds, 0.001);
        if (told.empty()) {
          EXPECT_TRUE(hub.deliver(payload_of(2, {all, kFirst})));
        }
        told = others;
      },
      0.001);
  hub.offer(all, 0, kFirst, Bytes(4));
  ASSERT_TRUE(hub.deliver(payload_of(1, {all, kFirst})));
  EXPECT_TRUE(hub.collect(all, 0, kFirst, kPatience));
  EXPECT_EQ(told, std::vector<int>{2});
}

TEST(FrameHub, SaysWhoseAnswerCameTooLate) {
  FrameHub hub(0, 3, [](int, const Bytes&) {});
  const uint64_t all = hub.group({0, 1, 2});
  hub.offer(all, 0, kFirst, Bytes(4));
  ASSERT_TRUE(hub.deliver(payload_of(1, {all, kFirst})));
  const auto late = hub.collect(all, 0, kFirst, 0);
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().message, "no answer from worker 2 within 0 s");
}

// Whoever has contributed cannot go on without the others' contributions, either.
TEST(FrameHub, WaitsInASumForThoseThatHaveNotContributed) {
  std::vector<std::vector<Bytes>> sent(3);
  FrameHub hub(0, 3, [](int, const Bytes&) {});
  FrameHub first(1, 3, [&](int to, Bytes frame) {
    sent[static_cast<size_t>(to)].push_back(std::move(frame));
  });
  const std::vector<float> values(300);
  std::vector<float> sum(300);
  const uint64_t all = hub.group({0, 1, 2});
  first.group({0, 1, 2});
  hub.contribute(all, 0, kFirst, values, kF32);
  first.contribute(all, 1, kFirst, values, kF32);
  while (first.work()) continue;
  for (Bytes& frame : sent[0]) {
    auto decoded = decode_frame(std::move(frame), 3);
    ASSERT_TRUE(decoded);
    ASSERT_TRUE(hub.deliver(*std::move(decoded)));
  }
  const auto late = hub.sum(all, 0, kFirst, sum, 0);
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().message, "no answer from worker 2 within 0 s");
}

}  // namespace
}  // namespace thinwire::transport
