#include <gtest/gtest.h>

#include <vector>

#include "thinwire/links/links.h"

namespace thinwire::links {
namespace {

TEST(Channel, TakesTheEarliestFreeTime) {
  Channel channel;
  const auto expect = [&](double ready, double seconds, double begin, double end) {
    const Span span = channel.take(ready, seconds);
    EXPECT_DOUBLE_EQ(span.begin, begin);
    EXPECT_DOUBLE_EQ(span.end, end);
  };
  expect(1, 2, 1, 3);
  expect(2, 1, 3, 4);  // behind it
  expect(6, 2, 6, 8);  // leaves a gap
  expect(0, 0.5, 0, 0.5);
  expect(0.25, 1, 0.5, 4.5);  // half before 1, half from 4 on
  expect(5, 0, 5, 5);
  expect(3, 2, 4.5, 8.5);  // 1.5 in the gap, the rest behind it
  expect(0, 1, 8.5, 9.5);
}

TEST(Channel, ForgetsOnlyThePast) {
  Channel channel;
  channel.take(0, 1);
  channel.take(2, 2);
  channel.forget_before(3);
  EXPECT_DOUBLE_EQ(channel.take(3, 1).end, 5);
}

// 100 bytes a second up and 1000 down, a second of delay.
Line line() { return {{.up_bit_s = 800, .down_bit_s = 8000, .delay_s = 1, .loss = 0}, {}, {}}; }

// The first operation's second trip waits for a delay, in which the second's first trip goes up.
TEST(RoundTrip, ALaterOneUsesTheTimeThatAnEarlierOneLeaves) {
  std::vector<Line> lines(2, line());
  const std::vector<Line*> both = {&lines[0], &lines[1]};
  const std::vector<double> bytes(2, 200);
  const auto trip = [&](std::vector<double> ready) {
    return run_round_trip(both, ready, bytes,
                          [](size_t from, size_t to) { return from == to ? 0.0 : 200.0; });
  };
  const std::vector<double> first = trip(trip({0, 0}));  // up from 0 to 2 and from 3 to 5
  EXPECT_DOUBLE_EQ(first[0], 6);
  const std::vector<double> second = trip({1, 1});  // up from 2 to 3 and from 5 to 6
  EXPECT_DOUBLE_EQ(second[0], 7);
  EXPECT_DOUBLE_EQ(trip(second)[1], 10);
}

}  // namespace
}  // namespace thinwire::links
