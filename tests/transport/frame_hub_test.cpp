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

}  // namespace
}  // namespace thinwire::transport
